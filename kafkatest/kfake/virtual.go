package kfake

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/stratalog/strata/internal/memnet"
)

// A VirtualNetwork is a network in memory, for tests in a testing/synctest bubble: whoever waits
// for it waits in a way that lets the time of the bubble pass. Its Listen goes to ListenFn, its
// DialContext to the clients. The zero VirtualNetwork is ready for use; it must not be copied after
// that. It is safe for concurrent use.
type VirtualNetwork struct {
	network memnet.Network
}

// localHost is what all hosts of a VirtualNetwork are called.
const localHost = "127.0.0.1"

// Listen returns a listener for an address: host:port, where the host is localhost, 127.0.0.1 or
// empty. Port 0 is a free one. It returns an error if there is a listener on the port.
func (s *VirtualNetwork) Listen(_, address string) (net.Listener, error) {
	address, err := localAddress(address)
	if err != nil {
		return nil, err
	}
	return s.network.Listen(address)
}

// DialContext connects to the listener of an address, and waits until the connection is accepted.
// It returns an error if nobody listens there, and ctx's.
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
