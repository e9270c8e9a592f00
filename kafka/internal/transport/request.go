package transport

import (
	"encoding/binary"
	"fmt"
)

const (
	minFrame  = 10      // key, version, correlation id, length of the client id
	leastStep = 1 << 10 // bytes read before more memory is taken
	overhead  = 1 << 10 // bytes charged for a request besides its own, with a small response
)

// A Request is a request with its header, or a SASL token without a header.
type Request struct {
	Bytes []byte // without the size; in use until the response is written

	conn    *Conn
	budget  *Budget // the budget of charged
	charged int
	held    int    // bytes counted in Conn.held
	answer  Answer // zero until it is done
	done    bool   // guarded by Conn.mu
}

// Key returns the number of the API.
func (r *Request) Key() int16 { return int16(binary.BigEndian.Uint16(r.Bytes)) }

// Version returns the version of the API.
func (r *Request) Version() int16 { return int16(binary.BigEndian.Uint16(r.Bytes[2:])) }

// Correlation returns the correlation id, which the response repeats.
func (r *Request) Correlation() int32 { return int32(binary.BigEndian.Uint32(r.Bytes[4:])) }

// Header returns the client id and the body. Flexible versions have tags in between, which are
// skipped.
func (r *Request) Header(flexible bool) (clientID string, body []byte, err error) {
	n := int(int16(binary.BigEndian.Uint16(r.Bytes[8:])))
	body = r.Bytes[minFrame:]
	switch {
	case n > len(body) || n < -1:
		return "", nil, fmt.Errorf("%w: client id of %d bytes", ErrMalformed, n)
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
		return nil, fmt.Errorf("%w: tags in its header", ErrMalformed)
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: tags in its header", ErrMalformed)
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, fmt.Errorf("%w: tags in its header", ErrMalformed)
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// Drop returns the memory of a request that is not in the queue, see Enqueue.
func (r *Request) Drop() {
	r.conn.give(r.budget, r.charged)
	r.charged = 0
}

// Enqueue appends a request to the queue of responses. It must be answered then.
func (r *Request) Enqueue() {
	c := r.conn
	r.held = len(r.Bytes) + overhead
	c.held.Add(int64(r.held))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, r)
	c.pending++
}

// Answer completes a request of the queue, once, and writes responses that are ready, or has them
// written. Calls for different requests may be concurrent.
func (r *Request) Answer(a Answer, by Writer) {
	r.answer = a
	size := 0
	for _, p := range a.Pieces {
		size += len(p)
	}
	if more := size - a.Charged; more > overhead && r.budget != r.conn.memory.Guests {
		r.conn.Charge(more)
		r.answer.Charged += more
	}
	r.held += size
	r.conn.held.Add(int64(size))
	r.conn.complete(r, by)
}
