package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// ErrAddressInUse is returned by Listen for an address that has a listener.
var ErrAddressInUse = errors.New("memnet: address in use")

// Addr is an address on a Network: host:port.
type Addr string

// Network returns "mem".
func (Addr) Network() string { return "mem" }

// String returns host:port.
func (a Addr) String() string { return string(a) }

// A Network is a set of listeners by address. Networks are independent of each other. The zero
// Network is ready for use. It is safe for concurrent use.
type Network struct {
	mu        sync.Mutex // guards the fields below
	listeners map[string]*listener
	nextPort  int
}

// Listen returns a listener for address, host:port, with any host. Port 0 picks a free port. It
// returns ErrAddressInUse if the address has a listener.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("memnet: listen: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		address = n.freeAddressLocked(host)
	}
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("memnet: listen %s: %w", address, ErrAddressInUse)
	}
	l := &listener{network: n, addr: Addr(address), conns: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[address] = l
	return l, nil
}

// Dial connects to the listener of address and returns when the connection is accepted. It returns
// ECONNREFUSED without a listener, or ctx's error. It has the signature of net.Dialer.DialContext;
// network is used in errors only.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	l, local := n.route(address)
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr(address), Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if l == nil {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	client, server := Pipe(local, l.addr)
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// route returns the listener of address, nil if there is none, and a local address for the caller.
func (n *Network) route(address string) (*listener, Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[address], Addr(n.freeAddressLocked("127.0.0.1"))
}

// freeAddressLocked returns an address without a listener. Ports of clients may repeat after 16,384
// calls, which is harmless: connections are not identified by address.
func (n *Network) freeAddressLocked(host string) string {
	for {
		address := net.JoinHostPort(host, strconv.Itoa(49152+n.nextPort%16384))
		n.nextPort++
		if n.listeners[address] == nil {
			return address
		}
	}
}

type listener struct {
	network *Network
	addr    Addr
	conns   chan net.Conn // unbuffered: Dial returns only after Accept has the connection
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed}
	}
}

func (l *listener) Close() error {
	err := error(&net.OpError{Op: "close", Net: l.addr.Network(), Addr: l.addr, Err: net.ErrClosed})
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.addr))
		l.network.mu.Unlock()
		close(l.closed)
		err = nil
	})
	return err
}

func (l *listener) Addr() net.Addr { return l.addr }
