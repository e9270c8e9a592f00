package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/clientmetrics"
	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

var (
	// ErrServerClosed is what Serve returns after Close or Shutdown.
	ErrServerClosed = errors.New("kafka: server closed")
	// ErrUnknownBroker refuses to serve for a broker that the cluster does not have.
	ErrUnknownBroker = errors.New("kafka: no such broker")
	// ErrInvalidVersionCaps refuses to serve with Config.VersionCaps that say nothing.
	ErrInvalidVersionCaps = errors.New("kafka: invalid version caps")
	// ErrPublicAddress refuses a listener that authenticates nobody on an address that other
	// machines reach.
	ErrPublicAddress = errors.New("kafka: address is reachable from other machines and the listener does not authenticate them (Config.AllowPublic serves it anyway)")
)

// Config is how a Server serves. The zero value is ready to use.
type Config struct {
	// Logger gets what an operator should know: connections refused or
	// cut, panics. nil: nothing is logged.
	Logger *slog.Logger

	// Advertise says where clients shall find a broker, if that is not where it listens
	// (containers, proxies). nil: the listener's address.
	Advertise func(broker int32, ln net.Listener) (host string, port int32)

	// VersionCaps lowers the highest version served of an API, by key; NotServed takes the API
	// away, as does a version below those served. It makes the server look like an older release.
	// See ServedVersions. Keys that are not served and versions below NotServed are refused.
	VersionCaps map[int16]int16

	// NoAutoCreate switches off that topics are created when clients first ask for them.
	// Kafka: auto.create.topics.enable=false.
	NoAutoCreate bool

	// LenientReplication has CreateTopics make a topic with as many replicas as there are brokers
	// when more are asked for by number: a setup written for three brokers
	// starts on one. min.insync.replicas may stay above that number: it binds no more replicas
	// than a topic has, as in Kafka. The option itself is not Kafka's.
	LenientReplication bool

	// Security is the protocol and the mechanisms of listeners that Serve is given as a plain
	// net.Listener; a *Listener has its own.
	Security Security

	// AllowPublic serves addresses that are reachable from other machines on listeners that
	// authenticate nobody.
	AllowPublic bool

	// PartialBatches fills an answer to a fetch up to its limits with the beginning of the next
	// batch, which the client has to drop, as Kafka does (KIP-74). Without it answers have whole
	// batches, and fewer bytes.
	PartialBatches bool

	Authorization    Authorization    // who may do what; zero: everybody everything
	DelegationTokens DelegationTokens // zero: there are none
	Limits           Limits
	Telemetry        Telemetry   // what clients measure of themselves; zero: not asked for
	Intercept        Interceptor // sees and alters what goes on; nil: nothing does
}

// A Server answers Kafka's protocol for the brokers of a cluster.
// All methods are safe for concurrent use.
type Server struct {
	cluster    strata.Backend
	cfg        Config
	limits     Limits
	log        *slog.Logger
	apis       map[int16]*api // with the version caps applied
	advertised []kmsg.ApiVersionsResponseApiKey
	memory     *transport.Memory                 // of requests and answers
	metrics    atomic.Pointer[clientmetrics.Set] // see clientMetrics; nil: not looked at yet
	decoding   *transport.Budget                 // of requests being decoded
	authorized atomic.Pointer[acl.Authorizer]    // for the newest entries seen; nil: nobody has asked yet
	tokens     atomic.Pointer[tokenIndex]        // of the newest tokens seen; nil: nobody has asked yet

	ctx    context.Context
	cancel context.CancelFunc
	connID atomic.Uint64
	done   sync.WaitGroup // one for each Serve and connection

	decoys []byte // a secret: what users that do not exist seem to have follows from it

	mutations throttles // of changes of partitions, by all brokers

	paceMu sync.Mutex // guards the field below; a leaf
	pace   sasl.Pace  // of those who fail to authenticate

	mu       sync.Mutex // guards the fields below
	closed   bool
	brokers  map[int32]*broker // those that are or were served, by id
	conns    map[*conn]struct{}
	draining bool
}

// NewServer returns a server for cluster, which must outlive it.
// Nothing is served before Serve is called.
func NewServer(cluster *strata.Cluster, cfg Config) *Server {
	s := &Server{
		cluster: cluster.Backend(), cfg: cfg, limits: cfg.Limits.withDefaults(), log: cfg.Logger,
		brokers: map[int32]*broker{}, conns: map[*conn]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.apis, s.advertised = cfg.offers()
	s.memory = transport.NewMemory(s.limits.InFlightBytes)
	s.decoding = transport.NewBudget(s.limits.InFlightBytes)
	s.decoys = make([]byte, 32)
	rand.Read(s.decoys) // never fails
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections for a broker until ln fails or the server is closed; it owns ln and
// closes it. It always returns an error: ErrServerClosed after Close and Shutdown,
// ErrPublicAddress, ErrInvalidSecurity, ErrInvalidVersionCaps, ErrUnknownBroker, or what ln failed
// with. An ln that is a *Listener is secured as that says, any other one by Config.Security.
//
// Clients are told of the brokers that are served. Of a cluster of several all should be, each by a
// listener of its own: a partition whose leader is not served cannot be reached. ServeAll announces
// them at once.
func (s *Server) Serve(broker int32, ln net.Listener) error {
	return s.ServeAll(map[int32]net.Listener{broker: ln})
}

// ServeAll is Serve for several brokers, which are announced to clients before the first connection
// is accepted. A broker that is served by several listeners is so by several calls. If one listener
// fails all of lns are closed, and its error is returned; connections go on. Nothing is served if
// one of them is refused. CloseBroker ends one of them, the others go on.
func (s *Server) ServeAll(lns map[int32]net.Listener) error {
	serve, err := s.Announce(lns)
	if err != nil {
		return err
	}
	return serve()
}

// Announce is the first half of ServeAll: clients are told of the brokers when it returns. serve is
// the second, and must be called: until then connections are made but not served, and Close waits.
func (s *Server) Announce(lns map[int32]net.Listener) (serve func() error, err error) {
	listening, err := s.listen(lns)
	if err != nil {
		closeAll(lns)
		return nil, err
	}
	return func() error { return s.serveAll(listening, lns) }, nil
}

func closeAll(lns map[int32]net.Listener) {
	for _, ln := range lns {
		ln.Close()
	}
}

func (s *Server) serveAll(listening []*listener, lns map[int32]net.Listener) error {
	ended := make(chan error, len(lns))
	for _, l := range listening {
		go func() {
			defer s.done.Done()
			err := s.accept(l)
			s.forget(l) // before anybody knows of the end, and serves the broker at another address
			ended <- err
		}()
	}
	err := ErrServerClosed
	for range lns {
		if failed := <-ended; failed != ErrServerClosed && err == ErrServerClosed {
			err = failed // those that follow fail because of it
			closeAll(lns)
		}
	}
	return err
}

// accept accepts connections until l fails, or the server or the broker is closed.
func (s *Server) accept(l *listener) error {
	b := l.broker
	for backoff := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case s.ctx.Err() != nil || s.isDraining() || !s.isServed(b):
			if err == nil {
				nc.Close()
			}
			return ErrServerClosed
		case err == nil:
			backoff = 0
			s.start(l, nc)
			continue
		case !isTemporary(err):
			return fmt.Errorf("kafka: accept: %w", err)
		}
		// Out of descriptors, say: connections that are there go on, new ones get their turn when
		// others end.
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
		s.log.Warn("accepting a connection failed", "broker", b.id, "error", err, "retry in", backoff)
		select {
		case <-time.After(backoff):
		case <-s.ctx.Done():
			return ErrServerClosed
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// start serves a connection in a goroutine of its own, unless there are too many, or its address
// has made too many of late. Nothing is sent or received before that goroutine does: accepting
// waits for no client.
func (s *Server) start(l *listener, nc net.Conn) {
	b := l.broker
	c := newConn(s, l, nc)
	s.mu.Lock()
	full := len(s.conns) >= s.limits.Connections
	refuse := s.closed || s.draining || full || s.brokers[b.id] != b
	crowded := len(s.conns) >= s.limits.Connections/2
	if !refuse {
		s.conns[c] = struct{}{}
		s.done.Add(1)
	}
	s.mu.Unlock()
	if refuse {
		if full {
			s.log.Warn("connection refused: too many", "limit", s.limits.Connections, "remote", nc.RemoteAddr())
		}
		c.transport.Close()
		return
	}
	unserved := b.connect(s.cluster.ClientQuotas(), nc.RemoteAddr())
	go func() {
		defer s.done.Done()
		switch {
		case unserved == 0:
			c.run()
		case crowded:
			c.transport.Close()
		default:
			c.leaveAlone(unserved)
		}
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// Close cuts all connections and returns when none of the server's
// goroutines is left. The cluster stays open.
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
		c.transport.HangUp()
	}
	s.done.Wait()
	return nil
}

// Shutdown stops accepting connections and requests, waits until the requests under way are
// answered or ctx ends, and closes. Requests that wait for something (long polls, joins) are ended.
// It returns ctx's error if that came first.
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
		c.transport.Drain()
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
	for _, b := range s.brokers {
		for _, ln := range b.listeners {
			ln.Close()
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}
