package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
)

var (
	// ErrServerClosed is what Serve returns after Close or Shutdown.
	ErrServerClosed = errors.New("kafka: server closed")
	// ErrUnknownBroker refuses to serve for a broker that the cluster does not have.
	ErrUnknownBroker = errors.New("kafka: no such broker")
	// ErrPublicAddress refuses to serve everybody: there is no authentication.
	ErrPublicAddress = errors.New("kafka: address is reachable from other machines and there is no authentication (Config.AllowPublic serves it anyway)")
)

// Config is how a Server serves. The zero value is ready to use.
type Config struct {
	// Logger gets what an operator should know: connections refused or cut, panics. nil: nothing is logged.
	Logger *slog.Logger

	// Advertise says where clients shall find a broker, if that is not where it listens (containers, proxies). nil: the listener's address.
	Advertise func(broker int32, ln net.Listener) (host string, port int32)

	// VersionCaps lowers the highest version served of an API, by key; NotServed takes the API away. It makes the server look like an older release.
	VersionCaps map[int16]int16

	// NoAutoCreate switches off that topics are created when clients first ask for them. Kafka: auto.create.topics.enable=false.
	NoAutoCreate bool

	// AllowPublic serves addresses that are reachable from other machines.
	AllowPublic bool

	Limits    Limits
	Telemetry Telemetry   // what clients measure of themselves; zero: not asked for
	Intercept Interceptor // sees and alters what goes on; nil: nothing does
}

// A Server answers Kafka's protocol for the brokers of a cluster. All methods are safe for concurrent use.
type Server struct {
	cluster    strata.Backend
	cfg        Config
	limits     Limits
	log        *slog.Logger
	apis       map[int16]*api // with the version caps applied
	advertised []kmsg.ApiVersionsResponseApiKey
	budget     *budget // of requests and answers
	decoding   *budget // of requests being decoded
	fetches    *sessionCache
	fetched    fetchBuffers
	requests   requestBuffers

	ctx    context.Context
	cancel context.CancelFunc
	connID atomic.Uint64
	done   sync.WaitGroup // one for each Serve and connection

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]int32
	addresses map[int32]address
	conns     map[*conn]struct{}
	draining  bool
}

type address struct {
	host string
	port int32
}

// NewServer returns a server for cluster, which must outlive it. Nothing is served before Serve is called.
func NewServer(cluster *strata.Cluster, cfg Config) *Server {
	s := &Server{
		cluster: cluster.Backend(), cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger,
		listeners: map[net.Listener]int32{}, addresses: map[int32]address{}, conns: map[*conn]struct{}{},
		fetches: newSessionCache(maxFetchSessions),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.apis = served(cfg.VersionCaps)
	if cfg.Telemetry.Receive == nil {
		delete(s.apis, int16(GetTelemetrySubscriptions))
		delete(s.apis, int16(PushTelemetry))
	}
	s.advertised = advertise(s.apis)
	s.budget = newBudget(s.limits.InFlightBytes)
	s.decoding = newBudget(s.limits.InFlightBytes)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections for a broker until ln fails or the server is closed; it owns ln and closes it. It always returns an
// error: ErrServerClosed after Close and Shutdown, ErrPublicAddress, ErrUnknownBroker, or what ln failed with.
func (s *Server) Serve(broker int32, ln net.Listener) error {
	defer ln.Close()
	if err := s.listen(broker, ln); err != nil {
		return err
	}
	defer s.done.Done()
	defer s.forget(ln)
	for backoff := time.Duration(0); ; {
		nc, err := ln.Accept()
		switch {
		case s.ctx.Err() != nil || s.isDraining():
			if err == nil {
				nc.Close()
			}
			return ErrServerClosed
		case err == nil:
			backoff = 0
			s.start(broker, nc)
			continue
		case !isTemporary(err):
			return fmt.Errorf("kafka: accept: %w", err)
		}
		// Out of descriptors, say: connections that are there go on, new ones get their turn when others end.
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
		s.log.Warn("accepting a connection failed", "broker", broker, "error", err, "retry in", backoff)
		select {
		case <-time.After(backoff):
		case <-s.ctx.Done():
			return ErrServerClosed
		}
	}
}

// listen registers ln, which is refused if it must not be served.
func (s *Server) listen(broker int32, ln net.Listener) error {
	if !s.cfg.AllowPublic && isPublic(ln.Addr()) {
		return fmt.Errorf("%w: %s", ErrPublicAddress, ln.Addr())
	}
	known := false
	for _, id := range s.cluster.Brokers() {
		known = known || id == broker
	}
	if !known {
		return fmt.Errorf("%w: %d", ErrUnknownBroker, broker)
	}
	host, port := listenAddress(ln.Addr())
	if s.cfg.Advertise != nil {
		host, port = s.cfg.Advertise(broker, ln)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining {
		return ErrServerClosed
	}
	s.listeners[ln] = broker
	if _, ok := s.addresses[broker]; !ok {
		s.addresses[broker] = address{host, port}
	}
	s.done.Add(1)
	return nil
}

func (s *Server) forget(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// address returns where clients find a broker. False: it does not listen.
func (s *Server) address(broker int32) (host string, port int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.addresses[broker]
	return a.host, a.port, ok
}

// start serves a connection in a goroutine of its own, unless there are too many.
func (s *Server) start(broker int32, nc net.Conn) {
	c := newConn(s, broker, nc)
	s.mu.Lock()
	full := len(s.conns) >= s.limits.Connections
	refuse := s.closed || s.draining || full
	if !refuse {
		s.conns[c] = struct{}{}
		s.done.Add(1)
	}
	s.mu.Unlock()
	if refuse {
		if full {
			s.log.Warn("connection refused: too many", "limit", s.limits.Connections, "remote", nc.RemoteAddr())
		}
		nc.Close()
		return
	}
	go func() {
		defer s.done.Done()
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// Close cuts all connections and returns when none of the server's goroutines is left. The cluster stays open.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.cancel()
	s.closeListenersLocked()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.nc.Close()
	}
	s.done.Wait()
	return nil
}

// Shutdown stops accepting connections and requests, waits until the requests under way are answered or ctx ends, and closes. Requests that
// wait for something (long polls, joins) are ended. It returns ctx's error if that came first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	s.closeListenersLocked()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.drain()
	}
	ended := make(chan struct{})
	go func() {
		s.done.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, s.Close())
}

func (s *Server) closeListenersLocked() {
	for ln := range s.listeners {
		ln.Close()
	}
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

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}
