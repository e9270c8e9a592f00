// Package memnet is a network in memory: listeners and buffered stream connections
// that behave as TCP's do, without sockets.
//
// It exists for tests in virtual time. Everything that waits here waits on a channel or a
// sync.Cond, which testing/synctest counts as durably blocked; a read of a socket is not. Unlike
// net.Pipe a connection is buffered, so that two peers that both write first do not wait for each
// other for ever, and a Write returns before the peer reads.
//
// # Promises
//
//   - Bytes arrive once, in order. After a Close the peer still reads the bytes written before,
//     then io.EOF.
//   - At most BufferSize bytes are held per direction, and no memory while a connection is idle and
//     new.
//   - Deadlines, Close and CloseWrite end present waits, as on a *net.TCPConn; errors are
//     *net.OpError around net.ErrClosed, os.ErrDeadlineExceeded, EPIPE and ECONNREFUSED, as clients
//     expect.
//   - No goroutines.
package memnet
