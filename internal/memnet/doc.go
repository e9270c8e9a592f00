// Package memnet is a network in memory: listeners and buffered stream connections that behave as
// TCP's do, without sockets.
//
// It exists for tests in virtual time. All waits are on a channel or a sync.Cond, which
// testing/synctest counts as durably blocked; a read of a socket is not. Unlike with net.Pipe, a
// connection is buffered: a Write returns before the peer reads, and two peers that both write
// first do not block each other for ever.
//
// # Promises
//
//   - Bytes arrive once, in order. After a Close the peer still reads the bytes written before,
//     then io.EOF.
//   - At most BufferSize bytes are buffered per direction. A new connection has no buffer until its
//     first write.
//   - Deadlines, Close and CloseWrite end present waits, as on a *net.TCPConn; errors are
//     *net.OpError around net.ErrClosed, os.ErrDeadlineExceeded, EPIPE and ECONNREFUSED, as clients
//     expect.
//   - No goroutines.
package memnet
