package kafka

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction"
)

// broker is one broker of the cluster as clients see it: where they find it, which partitions and
// groups it serves, and the fetch sessions that they have with it.
type broker struct {
	id           int32
	view         replication.View
	groups       *group.Coordinator       // of the groups that it coordinates
	transactions *transaction.Coordinator // of the transactional ids that it coordinates
	fetches      *sessionCache

	// Guarded by Server.mu. A broker that was closed has another one in its place there.
	listeners []*listener // that are accepting, in the order in which they came
	address   address     // of the first of them, or of the last there was
}

// listener is where a broker is served, from listen to forget.
type listener struct {
	net.Listener
	broker  *broker
	address address // that clients are told
}

// address is where clients find a broker.
type address struct {
	host string
	port int32
}

// listen registers listeners, all of them or none: once a client can reach one broker it learns of
// the others, too. They are refused if one of them must not be served.
func (s *Server) listen(lns map[int32]net.Listener) ([]*listener, error) {
	brokers := s.cluster.Brokers()
	addresses := map[int32]address{}
	for id, ln := range lns {
		if !s.cfg.AllowPublic && isPublic(ln.Addr()) {
			return nil, fmt.Errorf("%w: %s", ErrPublicAddress, ln.Addr())
		}
		if !slices.Contains(brokers, id) {
			return nil, fmt.Errorf("%w: %d", ErrUnknownBroker, id)
		}
		var at address
		if at.host, at.port = listenAddress(ln.Addr()); s.cfg.Advertise != nil {
			at.host, at.port = s.cfg.Advertise(id, ln)
		}
		addresses[id] = at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining {
		return nil, ErrServerClosed
	}
	var listening []*listener
	for id, ln := range lns {
		b := s.brokers[id]
		if b == nil {
			b = s.newBroker(id)
			s.brokers[id] = b
		}
		l := &listener{Listener: ln, broker: b, address: addresses[id]}
		b.listeners = append(b.listeners, l)
		b.address = b.listeners[0].address
		listening = append(listening, l)
		s.done.Add(1)
	}
	return listening, nil
}

// CloseBroker ends the service of one broker, as if its machine was gone: its listeners and
// connections are closed, what is under way is not answered, and its fetch sessions are forgotten.
// Serve and ServeAll return ErrServerClosed for the listeners, and can serve the broker again, also
// where it was. It does not wait for requests under way: they end with what they do in the cluster.
func (s *Server) CloseBroker(id int32) {
	s.mu.Lock()
	b := s.brokers[id]
	if b == nil {
		s.mu.Unlock()
		return
	}
	s.brokers[id] = s.newBroker(id)
	s.brokers[id].address = b.address // brokers that are down are described, too
	for _, ln := range b.listeners {
		ln.Close()
	}
	var conns []*conn
	for c := range s.conns {
		if c.broker == b {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.nc.Close()
	}
}

func (s *Server) newBroker(id int32) *broker {
	return &broker{id: id, view: s.cluster.View(id), groups: s.cluster.On(id), transactions: s.cluster.TransactionCoordinator().On(id), fetches: newSessionCache(maxFetchSessions)}
}

// isServed reports whether b was not closed.
func (s *Server) isServed(b *broker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.brokers[b.id] == b
}

// forget takes a listener that has ended out of its broker: clients are told of the next one.
func (s *Server) forget(ln *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := ln.broker
	b.listeners = slices.DeleteFunc(b.listeners, func(l *listener) bool { return l == ln })
	if len(b.listeners) > 0 {
		b.address = b.listeners[0].address
	}
}

// address returns where clients find a broker. False: it was never served.
func (s *Server) address(id int32) (host string, port int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.brokers[id]
	if !ok {
		return "", 0, false
	}
	return b.address.host, b.address.port, true
}

// isPublic reports whether others than this machine can reach the address.
func isPublic(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && !t.IP.IsLoopback()
}

// listenAddress is what clients are told if nothing else is configured.
func listenAddress(a net.Addr) (string, int32) {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String(), 0
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	n, _ := strconv.Atoi(port)
	return host, int32(n)
}
