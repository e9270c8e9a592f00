package kafkatest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/stratalog/strata/internal/memnet"
)

// bridgeBuffer is the number of bytes of a connection that pass the gate at a time, in each
// direction. The network of the bubble and sockets have buffers of their own.
const bridgeBuffer = 32 << 10

// listen returns a listener in the bubble for a listener outside, which the shell creates. Both are
// closed together. The addresses are of the outside network.
func (c *clock) listen(broker int32, address string) (net.Listener, error) {
	l := &bridgedListener{c: c, conns: make(chan net.Conn), errs: make(chan error, 1), closed: make(chan struct{})}
	var err error
	c.outside(func() {
		c.bridges.closing.Wait()    // of the previous listener at the address
		l.told = make(chan bool, 2) // room for at most one of each value
		l.outer, err = c.shell.listenAt(broker, address)
	})
	if err != nil {
		return nil, err
	}
	l.addr = l.outer.Addr()
	c.out <- func() { c.bridges.running.Go(l.accept) }
	return l, nil
}

// A bridgedListener is a listener in the bubble for a listener outside.
type bridgedListener struct {
	c     *clock
	outer net.Listener
	addr  net.Addr
	told  chan bool // created outside: true after the server received an error, false at its close

	// made in the bubble
	conns  chan net.Conn
	errs   chan error // errors of Accept outside
	once   sync.Once
	closed chan struct{}
}

func (l *bridgedListener) Addr() net.Addr { return l.addr }

func (l *bridgedListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case err := <-l.errs:
		l.told <- true
		return nil, err
	case <-l.closed:
		return nil, l.opError("accept")
	}
}

// Close does not wait until the listener outside is closed. The caller may hold a mutex, and time
// stands still while another goroutine waits for it.
func (l *bridgedListener) Close() error {
	err := l.opError("close")
	l.once.Do(func() {
		err = nil
		close(l.closed)
		l.told <- false
		l.c.out <- func() { l.c.bridges.closing.Go(func() { l.outer.Close() }) }
	})
	return err
}

func (l *bridgedListener) opError(op string) error {
	return &net.OpError{Op: op, Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
}

// accept takes the connections outside into the bubble until the listener is closed. Run outside.
func (l *bridgedListener) accept() {
	for {
		nc, err := l.outer.Accept()
		if err == nil {
			l.bridge(nc)
			continue
		}
		l.c.do(func() { l.errs <- err })
		select {
		case on := <-l.told: // the server decides whether to continue
			if !on {
				return
			}
		case <-l.c.over:
			return
		}
	}
}

// bridge makes nc a connection of the bubble. Run outside.
func (l *bridgedListener) bridge(nc net.Conn) {
	l.c.bridge(nc, func(b *bridge) {
		inner, server := memnet.Pipe(nc.RemoteAddr(), nc.LocalAddr())
		go func() {
			select {
			case l.conns <- server:
			case <-l.closed:
				if tcp, ok := nc.(*net.TCPConn); ok { // reset it, as if it was not accepted
					l.c.out <- func() { tcp.SetLinger(0) }
				}
				server.Close()
			}
		}()
		b.start(inner)
	})
}

// errSocketInside rejects a dial in the bubble over a socket, which would stop the server's time.
var errSocketInside = errors.New("kafkatest: Server.Inside has dialled: with Config.Clock that takes Config.Pipe")

// dial connects to a server with Config.Pipe.
func (c *clock) dial(ctx context.Context, network, address string) (outer net.Conn, err error) {
	if !c.shell.cfg.Pipe {
		return nil, errSocketInside
	}
	over := c.visit(func(s *Server, v *visit) {
		inside, cancel := v.context(ctx)
		defer cancel()
		if outer, err = s.network.Dial(inside, network, address); err != nil || v == nil {
			return
		}
		inner := outer
		v.back(func() {
			var server net.Conn
			outer, server = memnet.Pipe(inner.LocalAddr(), inner.RemoteAddr())
			c.bridge(server, func(b *bridge) { b.start(inner) })
		})
	})
	if errors.Is(over, errOver) {
		over = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	if over != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: memnet.Addr(address), Err: over}
	}
	return outer, err
}

// bridge creates a bridge with nc, which is outside, as its outer half. The gate starts the inner
// half. Called outside.
func (c *clock) bridge(nc net.Conn, start func(*bridge)) {
	b := &bridge{c: c, outer: nc, out: make(chan []byte, 1), taken: make(chan bool, 1)}
	if !c.bridges.add(b) {
		nc.Close()
		return
	}
	go b.write()
	c.carry(func() { start(b) })
	go b.read() // its jobs on the gate come after start
}

// awaitListeners waits until the listeners that the server has closed are closed outside. It must
// be called outside. It does nothing for a nil clock.
func (c *clock) awaitListeners() {
	if c == nil || inBubble() {
		return
	}
	select {
	case c.out <- func() {}: // runs after earlier functions of the server
	case <-c.over:
	}
	c.bridges.closing.Wait()
}

// A bridge carries the bytes of a connection into a bubble and out of it. In each direction one
// buffer is in transit, and the next one follows when it has arrived. So only the connection of a
// peer that does not read waits, in a way that lets time move.
type bridge struct {
	c     *clock
	outer net.Conn

	// created outside; sends to them never block
	out   chan []byte // from the server; closed at the end
	taken chan bool   // whether the received bytes were written to inner

	// made in the bubble
	inner net.Conn
	in    chan []byte   // from the client; nil at the end
	room  chan struct{} // has an element when the sent bytes were written to outer
}

// start begins to carry the bytes of inner, the client's end in the bubble. Run by the gate.
func (b *bridge) start(inner net.Conn) {
	b.inner, b.in, b.room = inner, make(chan []byte, 1), make(chan struct{}, 1)
	go b.carryIn()
	go b.carryOut()
}

// read sends the client's bytes into the bubble. Run outside.
func (b *bridge) read() {
	defer b.c.bridges.running.Done()
	buf := make([]byte, bridgeBuffer)
	for {
		n, err := b.outer.Read(buf)
		if n > 0 && !b.send(buf[:n]) {
			break
		}
		if err != nil {
			break
		}
	}
	b.c.carry(func() { b.in <- nil })
}

// send sends p into the bubble, and reports whether it was written to the server.
func (b *bridge) send(p []byte) bool {
	if !b.c.carry(func() { b.in <- p }) {
		return false
	}
	select {
	case ok := <-b.taken:
		return ok
	case <-b.c.over:
		return false
	}
}

// carryIn writes the client's bytes to the server. Run in the bubble.
func (b *bridge) carryIn() {
	for p := range b.in {
		if p == nil {
			b.inner.(*memnet.Conn).CloseWrite() // responses to earlier requests still go out
			return
		}
		_, err := b.inner.Write(p)
		b.taken <- err == nil
	}
}

// carryOut sends the server's bytes to the client. Run in the bubble.
func (b *bridge) carryOut() {
	buf := make([]byte, bridgeBuffer)
	for {
		n, err := b.inner.Read(buf)
		if n > 0 {
			b.out <- buf[:n]
			<-b.room
		}
		if err != nil {
			break
		}
	}
	b.inner.Close()
	close(b.out)
}

// write writes the server's bytes to the client. Run outside.
func (b *bridge) write() {
	defer b.c.bridges.running.Done()
	defer b.close()
	for {
		var p []byte
		select {
		case p = <-b.out:
		case <-b.c.over:
		}
		if p == nil {
			return
		}
		_, err := b.outer.Write(p)
		b.c.do(func() {
			if err != nil {
				b.inner.Close()
			}
			b.room <- struct{}{}
		})
	}
}

// close closes the connection outside.
func (b *bridge) close() {
	b.outer.Close()
	b.c.bridges.remove(b)
}

// bridges are the connections of a clock.
type bridges struct {
	running sync.WaitGroup // goroutines outside, of the connections and their listeners
	closing sync.WaitGroup // of listeners that are being closed outside

	mu     sync.Mutex // guards the fields below
	all    map[*bridge]bool
	closed bool
}

// add adds a bridge and its two goroutines outside, which running waits for. It returns false after
// closeAll.
func (bs *bridges) add(b *bridge) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.all == nil {
		bs.all = map[*bridge]bool{}
	}
	if bs.closed {
		return false
	}
	bs.all[b] = true
	bs.running.Add(2)
	return true
}

func (bs *bridges) remove(b *bridge) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	delete(bs.all, b)
}

// closeAll closes the connections outside that clients have left open. Later ones are closed at
// once.
func (bs *bridges) closeAll() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.closed = true
	for b := range bs.all {
		b.outer.Close()
	}
}
