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
	"github.com/stratalog/strata/internal/loglimit"
	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

var (
	// ErrServerClosed is returned by Serve after Close or Shutdown.
	ErrServerClosed = errors.New("kafka: server closed")
	// ErrUnknownBroker is returned by Serve for a broker that the cluster does not have.
	ErrUnknownBroker = errors.New("kafka: no such broker")
	// ErrInvalidVersionCaps is returned by Serve for invalid Config.VersionCaps.
	ErrInvalidVersionCaps = errors.New("kafka: invalid version caps")
	// ErrPublicAddress is returned by Serve for a listener without authentication on an address
	// that other machines can reach.
	ErrPublicAddress = errors.New("kafka: address is reachable from other machines and the listener does not authenticate them (Config.AllowPublic serves it anyway)")
)

// Config configures a Server. The zero value is ready to use.
type Config struct {
	// Logger receives messages for operators: rejected and cut connections, panics. nil discards
	// them.
	Logger *slog.Logger

	// Advertise returns the address of a broker for clients, if it differs from the listener's, as
	// for containers and proxies. nil means the listener's address.
	Advertise func(broker int32, ln net.Listener) (host string, port int32)

	// VersionCaps lowers the highest version of APIs, by key. NotServed, or a version below the
	// served ones, removes an API. With it a server imitates an older release. See ServedVersions.
	// Serve returns an error for a key that is not served and a version below NotServed.
	VersionCaps map[int16]int16

	// NoAutoCreate disables the creation of a topic when a client first requests it. Kafka:
	// auto.create.topics.enable=false.
	NoAutoCreate bool

	// LenientReplication reduces a replication factor in CreateTopics to the number of brokers,
	// instead of returning an error. So a setup written for three brokers starts on one.
	// min.insync.replicas may stay above that number: as in Kafka, it never requires more replicas
	// than a topic has. Kafka has no such option.
	LenientReplication bool

	// Security applies to listeners that are not a *Listener, which has its own.
	Security Security

	// AllowPublic allows listeners without authentication on addresses that other machines can
	// reach.
	AllowPublic bool

	// PartialBatches fills a fetch response up to its limit with the beginning of the next batch.
	// The client has to drop it, as with Kafka (KIP-74). Without PartialBatches a response has
	// whole batches only, and fewer bytes.
	PartialBatches bool

	Authorization    Authorization    // permissions of clients; zero: all clients have all permissions
	DelegationTokens DelegationTokens // zero: no delegation tokens
	Limits           Limits
	Telemetry        Telemetry   // metrics of clients; zero: not requested
	Intercept        Interceptor // gets every request and can change its handling; nil: none
}

// A Server serves Kafka's protocol for the brokers of a cluster. Its methods are safe for
// concurrent use.
type Server struct {
	cluster    strata.Backend
	cfg        Config
	limits     Limits
	log        *slog.Logger
	apis       map[int16]*api // with the version caps applied
	advertised []kmsg.ApiVersionsResponseApiKey
	memory     *transport.Memory                 // of requests and answers
	metrics    atomic.Pointer[clientmetrics.Set] // see clientMetrics; nil before the first use
	decoding   *transport.Budget                 // of requests while decoded and served
	owners     owners                            // of the connections

	waiting     waitingFetches                 // their partitions
	groupMemory groupMemory                    // of members of groups
	answers     [128]answerSizes               // by the key of the API
	authorized  atomic.Pointer[acl.Authorizer] // for the newest entries seen; nil before the first use
	tokens      atomic.Pointer[tokenIndex]     // of the newest tokens seen; nil before the first use

	ctx    context.Context
	cancel context.CancelFunc
	connID atomic.Uint64
	done   sync.WaitGroup // counts each Serve and connection

	decoys []byte // secret from which the credentials of missing users are derived

	// Limits of log lines that clients can cause: about failed requests, rejected connections,
	// connections closed after a malformed request, and connections closed before they
	// authenticated.
	failures, refusals, closures, strangers logPace

	mutations throttles // of partitions created or deleted, by all brokers

	paceMu sync.Mutex // guards the field below; a leaf
	pace   sasl.Pace  // of failed authentications

	logins loglimit.Limit // of failed logins

	mu       sync.Mutex // guards the fields below
	closed   bool
	brokers  map[int32]*broker // brokers that are or were served, by id
	conns    map[*conn]struct{}
	draining bool
}

// NewServer returns a server for cluster, which must stay open until the server is closed. It
// serves nothing until Serve is called.
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
	s.groupMemory.size, s.groupMemory.budget = s.limits.InFlightBytes, s.cluster.CoordinatorMemory()
	s.decoys = make([]byte, 32)
	rand.Read(s.decoys) // never fails
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections for a broker until ln fails or the server is closed. It owns ln and
// closes it. It always returns an error: ErrServerClosed after Close and Shutdown,
// ErrPublicAddress, ErrInvalidSecurity, ErrInvalidVersionCaps, ErrUnknownBroker, or the error of
// ln. A *Listener has its own Security; for any other ln it is Config.Security.
//
// Responses list only brokers that are served. Serve all brokers of a cluster, each with its own
// listener: clients cannot reach a partition whose leader is not served. ServeAll announces all of
// them at once.
func (s *Server) Serve(broker int32, ln net.Listener) error {
	return s.ServeAll(map[int32]net.Listener{broker: ln})
}

// ServeAll is Serve for several brokers, which are announced to clients before the first connection
// is accepted. For a broker with several listeners, call it several times. If one listener fails,
// ServeAll closes all of lns and returns the error; connections stay open. If one listener is
// rejected, none is served. CloseBroker ends one broker; the others continue.
func (s *Server) ServeAll(lns map[int32]net.Listener) error {
	serve, err := s.Announce(lns)
	if err != nil {
		return err
	}
	return serve()
}

// Announce is the first half of ServeAll: when it returns, responses list the brokers. serve is the
// second half, and must be called. Until then connections are established but not served, and Close
// blocks.
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
			s.forget(l) // before Serve returns and its caller serves the broker at another address
			ended <- err
		}()
	}
	err := ErrServerClosed
	for range lns {
		if failed := <-ended; failed != ErrServerClosed && err == ErrServerClosed {
			err = failed // later errors are due to closeAll
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
		// For example, no file descriptor is free. Existing connections continue, and new ones are
		// accepted when others have ended.
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

// start serves a connection on its own goroutine. It closes the connection if there are too many,
// or if its address has made too many recently. start itself neither sends nor receives, so that
// accept does not wait for a client.
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
			if dropped, ok := s.refusals.next(); ok {
				s.log.Warn("connection refused: too many", "limit", s.limits.Connections, "remote", nc.RemoteAddr(), "lines left out", dropped)
			}
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

// Close cuts all connections and returns when all goroutines of the server have ended. The cluster
// stays open.
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

// Shutdown stops accepting connections and requests, waits until requests in progress are answered
// or ctx ends, and closes the server. Waiting requests, such as long polls and joins, are ended. It
// returns ctx's error if ctx ended first.
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
