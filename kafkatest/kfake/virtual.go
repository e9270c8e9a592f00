package kfake

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/stratalog/strata/internal/memnet"
)

// A VirtualNetwork is an in-memory network for tests in a testing/synctest bubble: a goroutine that
// waits for it does not stop the time of the bubble. Pass its Listen to ListenFn, and its
// DialContext to clients. The zero VirtualNetwork is ready for use; it must not be copied after
// first use. It is safe for concurrent use.
type VirtualNetwork struct {
	network memnet.Network
}

// localHost is the name of all hosts of a VirtualNetwork.
const localHost = "127.0.0.1"

// Listen returns a listener for an address host:port, where the host is localhost, 127.0.0.1 or
// empty. Port 0 is any free port. It returns an error if the port has a listener.
func (s *VirtualNetwork) Listen(_, address string) (net.Listener, error) {
	address, err := localAddress(address)
	if err != nil {
		return nil, err
	}
	return s.network.Listen(address)
}

// DialContext connects to the listener of an address, and waits until it accepts. It returns an
// error if the address has no listener, and ctx's error if ctx ends first.
func (s *VirtualNetwork) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	address, err := localAddress(address)
	if err != nil {
		return nil, err
	}
	return s.network.Dial(ctx, network, address)
}

// localAddress returns the one name of an address of this host.
func localAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("kfake: virtual network: %w", err)
	}
	if !slices.Contains([]string{"", "localhost", localHost}, host) {
		return "", fmt.Errorf("kfake: virtual network: %s: there is only localhost", address)
	}
	return net.JoinHostPort(localHost, port), nil
}
