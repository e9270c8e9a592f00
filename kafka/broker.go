package kafka

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction"
)

// broker is one broker of the cluster as served to clients: its listeners and addresses, its
// partitions and groups, and its fetch and share sessions.
type broker struct {
	id           int32
	view         replication.View
	groups       *group.Coordinator       // of the groups that it coordinates
	transactions *transaction.Coordinator // of the transactional ids that it coordinates
	fetches      *sessionCache
	shares       shareSessions
	throttles    throttles // use of clients' quotas
	telemetry    clientmetrics.Manager

	// Guarded by Server.mu. CloseBroker replaces the broker in Server.brokers, with the same
	// addresses.
	listeners []*listener        // that accept connections, in the order of listen
	addresses map[string]address // by listener name; stays when its last listener ends
}

// listener is one listener of a broker. listen registers it, and Serve removes it when it has
// ended.
type listener struct {
	net.Listener
	broker   *broker
	name     string // see Listener.Name, never empty
	security Security
	address  address // in responses
}

// address is the address of a broker for clients.
type address struct {
	host string
	port int32
}

// listen registers all listeners or none, because a client that reaches one broker gets the
// addresses of the others. It returns an error if one of them must not be served.
func (s *Server) listen(lns map[int32]net.Listener) ([]*listener, error) {
	if err := s.cfg.Authorization.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: super users: %w", err)
	}
	if err := s.cfg.DelegationTokens.check(); err != nil {
		return nil, err
	}
	if err := checkVersionCaps(s.cfg.VersionCaps); err != nil {
		return nil, err
	}
	brokers := s.cluster.Brokers()
	described := map[int32]*listener{}
	for id, ln := range lns {
		l := s.describe(ln)
		if err := l.security.check(); err != nil {
			return nil, err
		}
		if !s.cfg.AllowPublic && !l.security.authenticates() && isPublic(ln.Addr()) {
			return nil, fmt.Errorf("%w: %s", ErrPublicAddress, ln.Addr())
		}
		if !slices.Contains(brokers, id) {
			return nil, fmt.Errorf("%w: %d", ErrUnknownBroker, id)
		}
		if l.address.host, l.address.port = listenAddress(ln.Addr()); s.cfg.Advertise != nil {
			l.address.host, l.address.port = s.cfg.Advertise(id, ln)
		}
		if l.security.revealsSecrets() && isPublic(l.Addr()) {
			s.log.Warn("clients send passwords or tokens without TLS to an address that other machines reach", "broker", id, "listener", l.name, "address", l.Addr().String())
		}
		s.log.Info("listener opened", "broker", id, "listener", l.name, "protocol", string(l.security.Protocol()), "address", ln.Addr().String(), "advertised", net.JoinHostPort(l.address.host, strconv.Itoa(int(l.address.port))))
		if err := l.security.certificateError(l.address.host, time.Now()); err != nil {
			s.log.Warn("clients will refuse the certificate at the address that they are told", "broker", id, "listener", l.name, "host", l.address.host, "error", err)
		}
		described[id] = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining {
		return nil, ErrServerClosed
	}
	var listening []*listener
	for id, l := range described {
		b := s.brokers[id]
		if b == nil {
			b = s.newBroker(id)
			s.brokers[id] = b
		}
		l.broker = b
		b.listeners = append(b.listeners, l)
		b.findAddress(l.name)
		listening = append(listening, l)
		s.done.Add(1)
	}
	return listening, nil
}

// describe returns the listener for ln, without its broker and address.
func (s *Server) describe(ln net.Listener) *listener {
	l := &listener{Listener: ln, security: s.cfg.Security}
	if own, ok := ln.(*Listener); ok {
		l.name, l.security = own.Name, own.Security
	}
	if l.security.SASL != nil {
		filled := l.security.SASL.withDefaults()
		l.security.SASL = &filled
	}
	if l.name == "" {
		l.name = string(l.security.Protocol())
	}
	return l
}

// findAddress sets the address for a listener name to the address of the first such listener. If
// none is left, the address stays. Server.mu is held.
func (b *broker) findAddress(name string) {
	for _, l := range b.listeners {
		if l.name == name {
			if b.addresses == nil {
				b.addresses = map[string]address{}
			}
			b.addresses[name] = l.address
			return
		}
	}
}

// CloseBroker ends the service of one broker as if its machine had failed. Its listeners and
// connections are closed, requests in progress get no response, and its fetch sessions are dropped.
// Serve and ServeAll return ErrServerClosed for its listeners. They can serve the broker again,
// also at the same address. CloseBroker does not wait for requests in progress, which still
// complete in the cluster.
func (s *Server) CloseBroker(id int32) {
	s.mu.Lock()
	b := s.brokers[id]
	if b == nil {
		s.mu.Unlock()
		return
	}
	s.brokers[id] = s.newBroker(id)
	s.brokers[id].addresses = maps.Clone(b.addresses) // responses list brokers that are down, too
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
		c.transport.HangUp()
	}
}

func (s *Server) newBroker(id int32) *broker {
	return &broker{id: id, view: s.cluster.View(id), groups: s.cluster.On(id), transactions: s.cluster.TransactionCoordinator().On(id), fetches: newSessionCache(maxFetchSessions)}
}

// isServed reports whether b has not been closed by CloseBroker.
func (s *Server) isServed(b *broker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.brokers[b.id] == b
}

// forget removes an ended listener from its broker. Clients get the address of the next one.
func (s *Server) forget(ln *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := ln.broker
	b.listeners = slices.DeleteFunc(b.listeners, func(l *listener) bool { return l == ln })
	b.findAddress(ln.name)
}

// address returns the address of a broker for clients of a listener with this name. It returns
// false if the broker never had such a listener.
func (s *Server) address(id int32, listener string) (host string, port int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.brokers[id]
	if !ok {
		return "", 0, false
	}
	at, ok := b.addresses[listener]
	return at.host, at.port, ok
}

// address is Server.address for the name of the listener of the call's connection.
func (c *call) address(id int32) (host string, port int32, ok bool) {
	return c.s.address(id, c.conn.listener)
}

// endpoints lists the addresses of a broker, each after the name of its listener. Kafka:
// advertised.listeners.
func (s *Server) endpoints(id int32) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	if b := s.brokers[id]; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.addresses)) {
			at := b.addresses[name]
			all = append(all, name+"://"+net.JoinHostPort(at.host, strconv.Itoa(int(at.port))))
		}
	}
	return strings.Join(all, ",")
}

// isPublic reports whether other machines can reach the address.
func isPublic(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && !t.IP.IsLoopback()
}

// listenAddress returns the address in responses unless Config.Advertise is set. For an
// unspecified IP address the host is localhost.
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
