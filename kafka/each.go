package kafka

import "iter"

// each returns the elements of a list of the request with their indexes. It ends early when the
// client has closed its connection, or the server has been shutting down for a second (see
// transport.Conn.Overdue). That ends the context of the call, and the answer is dropped: a request
// may name a hundred thousand groups.
//
// It is for the goroutine of the handler. Handlers use it where each element takes work beyond that
// for its place in the answer.
func each[T any](c *call, list []T) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, e := range list {
			if c.conn.transport.Overdue() || !yield(i, e) {
				return
			}
		}
	}
}
