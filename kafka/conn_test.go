package kafka

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
)

func TestRepliesOfAClosedConnectionGiveBackWhatTheyHoldOnce(t *testing.T) {
	const size = 1000
	for name, end := range map[string]func(c *conn, undone, done *reply){
		"completed, then closed": func(c *conn, undone, done *reply) {
			c.closed = true // as by a write that failed
			c.complete(done, callerWrites)
			c.close()
			c.complete(undone, callerWrites)
		},
		"closed while somebody writes": func(c *conn, undone, done *reply) {
			c.complete(done, callerWrites)
			c.writing = true
			c.close()
			c.write()
			c.complete(undone, callerWrites)
		},
		"closed by the answer": func(c *conn, undone, done *reply) {
			c.complete(done, callerWrites)
			undone.close = true
			c.complete(undone, callerWrites)
			c.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewServer(new(strata.Cluster), Config{Limits: Limits{InFlightBytes: size}})
			defer s.Close()
			near, far := net.Pipe()
			defer far.Close()
			c := newConn(s, &broker{id: 1}, near)
			require.True(t, s.budget.sem.TryAcquire(size))
			undone, done := &reply{frame: &frame{charged: size / 2}}, &reply{frame: &frame{}, charged: size / 2}
			c.enqueue(undone)
			c.enqueue(done)
			end(c, undone, done) // more than was taken would panic
			require.True(t, s.budget.sem.TryAcquire(size), "not all was given back")
			require.Empty(t, c.queue)
		})
	}
}
