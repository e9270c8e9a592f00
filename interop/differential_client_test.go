package interop

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A wireClient sends requests to one broker.
type wireClient struct {
	addr string
	user string // authenticates with the password secret; "": no authentication
	nc   net.Conn
	form *kmsg.RequestFormatter
	next int32
}

// answerTimeout is the limit for one answer; no request of a script waits for long.
const answerTimeout = 30 * time.Second

// errNoAnswer means that a broker did not answer within answerTimeout.
var errNoAnswer = errors.New("there is no answer")

var errClosed = errors.New("the connection was closed")

func (c *wireClient) dial() error {
	nc, err := net.DialTimeout("tcp", c.addr, 10*time.Second)
	if c.nc = nc; err != nil || c.user == "" {
		return err
	}
	return c.authenticate()
}

func (c *wireClient) send(req kmsg.Request) error {
	c.next++
	c.nc.SetDeadline(time.Now().Add(answerTimeout))
	b := c.form.AppendRequest(nil, req, c.next)
	_, err := c.nc.Write(b)
	return err
}

// receive returns the answer to req. It returns nil, and dials again, if the broker closed the
// connection.
func (c *wireClient) receive(req kmsg.Request) (kmsg.Response, error) {
	resp, err := c.read(req)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		c.nc.Close()
		return nil, errors.Join(errNoAnswer, c.dial())
	}
	if errors.Is(err, errClosed) {
		c.nc.Close()
		return nil, c.dial()
	}
	return resp, err
}

func (c *wireClient) read(req kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return nil, err
		}
		return nil, errClosed
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

func (c *wireClient) ask(req kmsg.Request) (kmsg.Response, error) {
	if err := c.send(req); err != nil {
		c.nc.Close()
		return nil, c.dial()
	}
	return c.receive(req)
}
