// Package transport handles the bytes of connections: requests and answers in frames, the order of
// answers, and the memory of both. It has no knowledge of APIs or principals.
//
// # One request
//
// [Conn.Next] reads a [Request], and charges its bytes to the [Budget] of the server as they
// arrive. Its result is one [Answer]: the response, its memory, and whether the connection ends.
// The memory of a request and its answer is returned exactly once. [Request.Drop] returns it
// before the request has a place in the order of answers ([Request.Enqueue]). After that it is
// returned when the answer has been written or dropped.
//
// # Goroutines
//
// One goroutine of the connection reads, and calls Next, Token, AwaitPending, Finish and Enqueue.
// Any goroutine may answer a request. The one that answers the oldest request writes the ready
// answers.
package transport
