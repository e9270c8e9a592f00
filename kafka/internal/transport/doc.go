// Package transport has the bytes of connections: requests and answers in frames, the order of
// answers, and the memory that both take. It knows neither APIs nor who the client is.
//
// # One request
//
// [Conn.Next] reads a [Request], and charges its bytes to the [Budget] of the server as they come.
// What becomes of it is one [Answer]: what is sent, what that holds, and whether the connection
// ends. All that a request and its answer hold is given back once, whatever happens to the
// connection: by [Request.Drop] if it never got its place in the order of the answers
// ([Request.Enqueue]), else when its answer was written, or will not be.
//
// # Goroutines
//
// One goroutine of the connection reads: Next, Token, AwaitPending, Finish, Enqueue are for it. Any
// goroutine answers a request, and who answers the oldest one writes the answers that are ready.
package transport
