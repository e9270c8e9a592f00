package transport

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersOfAClosedConnectionGiveBackWhatTheyHoldOnce(t *testing.T) {
	const size = 1000
	held := Answer{Charged: size / 2}
	for name, end := range map[string]func(c *Conn, undone, done *Request){
		"answered, then closed": func(c *Conn, undone, done *Request) {
			c.closed = true // as after a failed write
			done.Answer(held, Caller)
			c.Close()
			undone.Answer(Answer{}, Caller)
		},
		"closed while somebody writes": func(c *Conn, undone, done *Request) {
			done.Answer(held, Caller)
			c.writing = true
			c.Close()
			c.write()
			undone.Answer(Answer{}, Caller)
		},
		"closed by the answer": func(c *Conn, undone, done *Request) {
			done.Answer(held, Caller)
			undone.Answer(Answer{End: EndBefore}, Caller)
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			m := NewMemory(size)
			c := New(t.Context(), near, m, Limits{}, nil)
			require.Equal(t, size, m.Budget.TryTake(size, size, nil))
			undone, done := &Request{conn: c, charged: size / 2}, &Request{conn: c}
			undone.Enqueue()
			done.Enqueue()
			end(c, undone, done) // more than was taken would panic
			require.Equal(t, size, m.Budget.TryTake(size, size, nil), "not all was given back")
			require.Empty(t, c.queue)
			require.Zero(t, c.held.Load())
		})
	}
}
