package kafkatest

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/vfs"
)

// A Server is one Kafka broker for tests, or several in one cluster. Its methods are safe for
// concurrent use. Methods that can fail the test, which includes all that wait, must be called on
// the test's goroutine, because T.Fatalf must be.
type Server struct {
	t        T
	cfg      Config
	fs       vfs.FS
	wait     time.Duration
	testEnds time.Time // deadline of all waits; zero: no limit
	label    string    // profiler label of its goroutines
	began    time.Time // of the brokers' time

	// With Config.Clock there are two Servers. The test's Server has clock set. Its methods call
	// the methods of the other Server, which runs in the bubble of the clock in its field host.
	clock, host *clock

	authority *throwaway.Authority // of certificates; nil: there is no TLS
	cert      tls.Certificate      // of the brokers

	network memnet.Network
	in      *interceptor

	// guards the fields below; not held while the server starts or stops, which turn serialises
	mu      sync.Mutex
	running *running
	addrs   map[int32]string // by broker, including stopped ones
	racks   map[int32]string // by broker, including stopped ones
	removed map[int32]bool   // brokers that were removed

	turn chan struct{} // a token: taken while the server is being started or stopped
}

// New starts the brokers and returns when they serve. It registers a function with t.Cleanup that
// stops them, waits for their goroutines, and fails the test if one does not end. New fails the
// test if cfg is invalid or a broker does not start.
func New(t T, cfg Config) *Server {
	t.Helper()
	if err := cfg.check(); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	if cfg.Clock {
		return newClocked(t, cfg)
	}
	return open(t, cfg, nil)
}

// open is New for a server without its own clock. host is the clock in whose bubble it runs; nil:
// none.
func open(t T, cfg Config, host *clock) *Server {
	t.Helper()
	s := &Server{t: t, cfg: cfg, fs: cfg.FS, host: host, began: time.Now(), turn: make(chan struct{}, 1), racks: cfg.racks(), removed: map[int32]bool{}}
	switch {
	case s.fs != nil || cfg.Sync:
	case cfg.Dir == "":
		s.fs = vfs.Mem() // created here, so that it outlives a Restart
	default:
		s.fs = unsynced{vfs.OS()}
	}
	virtual := false
	s.testEnds, virtual = testDeadline(t)
	switch {
	case cfg.WaitTimeout > 0:
		s.wait = cfg.WaitTimeout
	case virtual:
		s.wait = virtualWait
	default:
		s.wait = defaultWait
	}
	s.label = newLabel()
	if host == nil { // otherwise the clock does this
		if s.cfg.Listen != nil {
			s.cfg.Listen = listenOutside(s.outside(), s.cfg.Listen)
		}
		if cfg.Intercept != nil {
			cfg.Intercept = outsider{run: s.outside(), own: cfg.Intercept}
		}
	}
	s.in = newInterceptor(s.topicName, func(line string) { t.Logf("%s", line) }, cfg.Intercept)
	s.in.discards, s.in.host = cfg.BlackholeProduce, host
	err := s.secure()
	if err != nil {
		t.Fatalf("kafkatest: certificates: %v", err)
	}
	relabelled(s.label, func() {
		if err = s.start(); err == nil {
			err = s.createTopics()
		}
	})
	t.Cleanup(s.cleanup)
	if err != nil {
		t.Fatalf("kafkatest: start: %v", err)
	}
	return s
}

// Addrs returns the addresses of all brokers, in the order of their ids, for the bootstrap servers
// of a client.
func (s *Server) Addrs() []string {
	return s.itself().allAddrs()
}

func (s *Server) allAddrs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]string, 0, len(s.addrs))
	for _, id := range slices.Sorted(maps.Keys(s.addrs)) {
		addrs = append(addrs, s.addrs[id])
	}
	return addrs
}

// Addr returns the address of one broker. It fails the test if the broker does not exist.
func (s *Server) Addr(broker int32) string {
	s.t.Helper()
	inner := s.itself()
	inner.mu.Lock()
	addr := inner.addrs[broker]
	inner.mu.Unlock()
	if addr == "" {
		s.t.Fatalf("kafkatest: there is no broker %d", broker)
	}
	return addr
}

// Leader returns the leader of a partition, or -1 if it has none or does not exist.
func (s *Server) Leader(topic string, partition int32) int32 {
	return s.itself().Cluster().Backend().Leader(topic, partition)
}

// Coordinator returns the coordinator of a group, whether the group exists or not. It fails the
// test if the coordinator's partition has no leader.
func (s *Server) Coordinator(group string) (broker int32) {
	s.t.Helper()
	s.within(fmt.Sprintf("Coordinator(%s)", group), func(s *Server, _ *visit) {
		ctx, cancel := s.waitContext()
		defer cancel()
		var err error
		if broker, err = s.Cluster().Backend().FindCoordinator(ctx, group); err != nil {
			s.t.Fatalf("kafkatest: coordinator of group %s: %v", group, err)
		}
	})
	return broker
}

// Dial connects to a broker. It has the signature of net.Dialer.DialContext and of the dialer
// option of most clients. With Config.Pipe a client needs this option, because the addresses exist
// only in the in-memory network.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.clock != nil && (s.cfg.Pipe || inBubble()) {
		return s.clock.dial(ctx, network, address)
	}
	if s.cfg.Pipe {
		return s.network.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Cluster returns the cluster, to read and change topics, offsets and groups, and to create
// in-process producers and consumers. After a Restart it is a new one. It fails the test with
// Config.Clock, where the cluster can be used only in Inside.
func (s *Server) Cluster() *strata.Cluster {
	s.t.Helper()
	if s.clock != nil {
		s.t.Fatalf("kafkatest: Cluster: with Config.Clock the cluster can be used in its bubble only: s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) { ... })")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running.cluster
}

// outside runs the functions of the test that the server calls.
func (s *Server) outside() outside {
	if s.clock != nil {
		return s.clock.outside
	}
	return func(f func()) { unlabelled(s.label, f) }
}

// Fault activates f for requests of clients, until it has hit f.Times of them. It fails the test if
// f is invalid.
func (s *Server) Fault(f Fault) *Injected {
	s.t.Helper()
	if err := f.check(); err != nil {
		s.t.Fatalf("kafkatest: %v", err)
	}
	if f.Broker != 0 {
		s.Addr(f.Broker) // fails for an unknown broker, whose fault would never hit
	}
	f = s.outside().fault(f)
	var j *Injected
	s.look("Fault: "+f.describe(), func(s *Server, _ *visit) { j = s.in.inject(f) })
	j.server = s
	return j
}

// Observe registers f to be called for every later exchange, before its response is written. If
// there will be no response, because it is dropped or the connection is cut, f is called with a nil
// Response. Unlike Requests, f gets all exchanges, with their records.
//
// f is called without locks on a goroutine of the request's connection, concurrently for different
// connections. It may call methods of the Server, except those that stop a broker. It must not
// wait, nor change or keep the exchange. stop ends the registration; a call in progress may
// continue. A nil f fails the test.
func (s *Server) Observe(f func(*kafka.Exchange)) (stop func()) {
	s.t.Helper()
	if f == nil {
		s.t.Fatalf("kafkatest: Observe: f is nil")
	}
	return s.itself().in.observe(s.outside().observer(f))
}

// Restart shuts all brokers down and starts all of them, including stopped and killed ones, at
// their addresses and with their data. Clients see their connections cut. Faults and the history
// remain. It returns when the brokers serve, or fails the test.
func (s *Server) Restart() {
	s.t.Helper()
	s.within("Restart", func(s *Server, _ *visit) { s.restart() })
	s.clock.awaitListeners()
}

func (s *Server) restart() {
	defer s.takeTurn()()
	err := s.stop()
	s.in.restart()
	if err == nil {
		relabelled(s.label, func() { err = s.start() })
	}
	if err != nil {
		s.t.Fatalf("kafkatest: restart: %v", err)
	}
}

// takeTurn waits until no other goroutine starts or stops brokers, and fails the test if the server
// has ended. The caller defers release.
func (s *Server) takeTurn() (release func()) {
	s.t.Helper()
	s.turn <- struct{}{}
	release = func() { <-s.turn }
	if s.in.ended() {
		release()
		s.t.Fatalf("kafkatest: %v", errOver)
	}
	return release
}

// topicName returns the name of a topic id, "" if there is none.
func (s *Server) topicName(id [16]byte) string {
	name, _ := s.Cluster().Backend().TopicName(id)
	return name
}

// cleanup stops the server at the end of the test.
func (s *Server) cleanup() {
	s.t.Helper()
	defer s.report()
	s.in.end()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if err := s.stop(); err != nil {
		s.t.Logf("kafkatest: stop: %v", err) // the test may have broken the disk on purpose
	}
	s.in.mu.Lock()
	misuse := s.in.misuse
	s.in.mu.Unlock()
	if misuse != nil {
		s.t.Fatalf("kafkatest: what Decide returned: %v", misuse)
	}
	if left := leaked(s.label); len(left) > 0 {
		s.t.Fatalf("kafkatest: %d goroutines of the broker are left after it has stopped:\n\n%s", len(left), strings.Join(left, "\n\n"))
	}
}
