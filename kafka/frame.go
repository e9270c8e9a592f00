package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errMalformed closes the connection: what comes after cannot be trusted.
var errMalformed = errors.New("kafka: malformed request")

const (
	minFrame  = 10       // key, version, correlation id, length of the client id
	firstStep = 64 << 10 // of a request is read before more memory is taken for it
)

// frame is one request as it came.
type frame struct {
	buf     []byte // without the size
	charged int    // of the server's budget
}

// decode parses the request's body. While it does, it holds as many bytes as the request can take
// in memory; of a budget of its own, since the frames that wait here have their bytes already.
func (f *frame) decode(c *conn, a *api, req kmsg.Request, body []byte) error {
	if a.key == Produce {
		if err := checkProduce(body, f.version()); err != nil {
			return err
		}
		return req.ReadFrom(body)
	}
	more := (a.inflation - 1) * len(body)
	if err := c.s.decoding.take(c.ctx, more); err != nil {
		return err
	}
	defer c.s.decoding.give(more)
	return req.ReadFrom(body)
}

func (f *frame) key() int16         { return int16(binary.BigEndian.Uint16(f.buf)) }
func (f *frame) version() int16     { return int16(binary.BigEndian.Uint16(f.buf[2:])) }
func (f *frame) correlation() int32 { return int32(binary.BigEndian.Uint32(f.buf[4:])) }

// header returns the client id and the body. Flexible versions
// have tags in between, which are skipped.
func (f *frame) header(flexible bool) (clientID string, body []byte, err error) {
	n := int(int16(binary.BigEndian.Uint16(f.buf[8:])))
	body = f.buf[minFrame:]
	switch {
	case n > len(body) || n < -1:
		return "", nil, fmt.Errorf("%w: client id of %d bytes", errMalformed, n)
	case n > 0:
		clientID, body = string(body[:n]), body[n:]
	}
	if flexible {
		if body, err = skipTags(body); err != nil {
			return "", nil, err
		}
	}
	return clientID, body, nil
}

func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)) {
		return nil, fmt.Errorf("%w: tags in its header", errMalformed)
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: tags in its header", errMalformed)
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, fmt.Errorf("%w: tags in its header", errMalformed)
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// reader reads frames. Memory is taken as bytes come, whatever size is announced.
type reader struct {
	s     *Server
	conn  *conn
	in    input
	first time.Time // when the first request must be there, and the client authenticated; zero: it is
}

// next reads the next frame. It waits until nothing has come, nor been answered, for Limits.Idle.
func (r *reader) next() (*frame, error) {
	if a := r.conn.sasl; a != nil && a.once.Load() {
		r.first = time.Time{}
	}
	for quiet := time.Now(); ; {
		deadline := r.first
		if deadline.IsZero() {
			deadline = quiet.Add(r.s.limits.Idle)
		}
		if r.conn.isDraining() {
			return nil, ErrServerClosed
		}
		err := r.in.wait(deadline)
		if err == nil {
			break
		}
		active := r.conn.lastActive()
		if !isTimeout(err) || !r.first.IsZero() || !active.After(quiet) {
			return nil, err
		}
		quiet = active
	}
	if r.first.IsZero() && len(r.in.ahead) < 4 {
		r.conn.readBy(time.Now().Add(r.s.limits.WholeRequest))
	}
	head, err := r.in.peek(6)
	if err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	key := Key(binary.BigEndian.Uint16(head[4:]))
	limit := r.s.limits.RequestBytes
	if a := r.s.apis[int16(key)]; key != Produce && a != nil {
		limit = min(limit, r.s.budget.size/a.inflation)
	}
	if a := r.conn.sasl; a != nil && !a.once.Load() {
		limit = min(limit, a.cfg.MaxReceiveBytes)
	}
	if size < minFrame || size > limit {
		return nil, fmt.Errorf("%w: size %d, at most %d are allowed for %v", errMalformed, size, limit, key)
	}
	r.in.skip(4)
	if r.first.IsZero() && len(r.in.ahead) < size {
		r.conn.readBy(time.Now().Add(r.s.limits.WholeRequest))
	}
	f, err := r.body(size)
	if err != nil {
		return nil, err
	}
	if r.conn.sasl == nil {
		r.first = time.Time{}
	}
	return f, nil
}

// body reads a frame, in steps of which each is at most three times what has come.
func (r *reader) body(size int) (*frame, error) {
	f := &frame{buf: r.s.requests.take(size)}
	if cap(f.buf) < size {
		f.buf = r.s.requests.make(min(size, firstStep))
	}
	for len(f.buf) < size {
		step := min(size-len(f.buf), max(firstStep, 3*len(f.buf)))
		if err := r.s.budget.takeWithin(r.conn.ctx, step, r.s.limits.WholeRequest); err != nil {
			r.drop(f)
			return nil, err
		}
		f.charged += step
		if need := len(f.buf) + step; need > cap(f.buf) {
			grown := r.s.requests.take(need)
			if cap(grown) < need {
				grown = r.s.requests.make(need)
			}
			grown = append(grown, f.buf...)
			r.s.requests.keep(f.buf)
			f.buf = grown
		}
		at := len(f.buf)
		f.buf = f.buf[:at+step]
		if err := r.in.readFull(f.buf[at:]); err != nil {
			r.drop(f)
			return nil, err
		}
	}
	return f, nil
}

func (r *reader) drop(f *frame) {
	r.s.budget.give(f.charged)
	f.charged = 0
}
