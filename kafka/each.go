package kafka

import "iter"

// each returns the elements of a list of the request with their indexes. It ends early when the
// client has closed its connection, or the server has been shutting down for a second (see
// transport.Conn.Overdue). Then the context of the call is cancelled and the response is dropped:
// a request may name a hundred thousand groups.
//
// Only the goroutine of the handler may call it. Handlers use it if an element takes more work
// than its place in the response.
func each[T any](c *call, list []T) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, e := range list {
			if c.conn.transport.Overdue() || !yield(i, e) {
				return
			}
		}
	}
}
