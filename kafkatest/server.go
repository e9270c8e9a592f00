package kafkatest

import (
	"context"
	"crypto/tls"
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

// A Server is a Kafka broker for tests, or several that are one cluster. Its methods are safe for
// concurrent use, but those that can fail the test (whose doc says so, and all that wait) belong on
// the test's goroutine, as T.Fatalf does.
type Server struct {
	t        T
	cfg      Config
	fs       vfs.FS
	wait     time.Duration
	testEnds time.Time // when waits give up at the latest; zero: no limit
	label    string    // of its goroutines

	// With Config.Clock there are two of them. The test has the one with clock, whose methods call
	// those of the other, which runs in the bubble of the clock that is its host.
	clock, host *clock

	authority *throwaway.Authority // of certificates; nil: there is no TLS
	cert      tls.Certificate      // of the brokers

	network memnet.Network
	in      *interceptor

	// guards the fields below; not held while starting and stopping, which turn is for
	mu      sync.Mutex
	running *running
	addrs   map[int32]string // by broker, also of those that are stopped
	racks   map[int32]string // likewise
	removed map[int32]bool   // brokers that were removed

	turn chan struct{} // a token: taken while the server is started or stopped
}

// New starts the brokers, which serve when New returns; t.Cleanup stops them, waits for
// their goroutines to end, and fails the test if one does not. It fails the test if cfg
// makes no sense or a broker does not start.
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

// open is New for a server that has no clock of its own; host is the clock whose bubble it is in.
func open(t T, cfg Config, host *clock) *Server {
	t.Helper()
	s := &Server{t: t, cfg: cfg, fs: cfg.FS, host: host, turn: make(chan struct{}, 1), racks: cfg.racks(), removed: map[int32]bool{}}
	switch {
	case s.fs != nil || cfg.Sync:
	case cfg.Dir == "":
		s.fs = vfs.Mem() // ours, so that it outlives a Restart
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
	s.in = newInterceptor(s.topicName, func(line string) { t.Logf("%s", line) }, cfg.Intercept)
	s.in.discards, s.in.host = cfg.BlackholeProduce, host
	err := s.secure()
	if err != nil {
		t.Fatalf("kafkatest: certificates: %v", err)
	}
	s.label = labelled(func() {
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

// Addrs returns the addresses of all brokers in the order of their ids, to be
// given to clients as bootstrap servers.
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

// Addr returns the address of one broker. It fails the test if there is none of that id.
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

// Leader returns the broker that leads a partition, -1 if none does or there is no such partition.
func (s *Server) Leader(topic string, partition int32) int32 {
	return s.itself().Cluster().Backend().Leader(topic, partition)
}

// Coordinator returns the broker that coordinates a group, whether or not there is such a group. It
// fails the test if none does.
func (s *Server) Coordinator(group string) (broker int32) {
	s.t.Helper()
	s.within(func(s *Server, _ *visit) {
		ctx, cancel := s.waitContext()
		defer cancel()
		var err error
		if broker, err = s.Cluster().Backend().FindCoordinator(ctx, group); err != nil {
			s.t.Fatalf("kafkatest: coordinator of group %s: %v", group, err)
		}
	})
	return broker
}

// Dial connects to a broker. Its signature is that of net.Dialer.DialContext and of
// most clients' option for it, which have to be given it if Config.Pipe is set: the
// addresses are names that no resolver knows.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.clock != nil && (s.cfg.Pipe || inBubble()) {
		return s.clock.dial(ctx, network, address)
	}
	if s.cfg.Pipe {
		return s.network.Dial(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Cluster returns the broker's inside: topics, offsets and groups, to look at and to change, and
// what an in-process producer or consumer is made from. After a Restart it is another. It fails the
// test with Config.Clock, where the cluster can be used in Inside only.
func (s *Server) Cluster() *strata.Cluster {
	s.t.Helper()
	if s.clock != nil {
		s.t.Fatalf("kafkatest: Cluster: with Config.Clock the cluster can be used in its bubble only: s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) { ... })")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running.cluster
}

// Fault makes things go wrong for the clients until it has hit as many requests as it says.
// It fails the test if f makes no sense.
func (s *Server) Fault(f Fault) *Injected {
	s.t.Helper()
	if err := f.check(); err != nil {
		s.t.Fatalf("kafkatest: %v", err)
	}
	if f.Broker != 0 {
		s.Addr(f.Broker) // a fault of nobody would wait for ever
	}
	if s.clock != nil {
		f = s.clock.fault(f)
	}
	var j *Injected
	s.look(func(s *Server, _ *visit) { j = s.in.inject(f) })
	j.server = s
	return j
}

// Observe has f called for every exchange from now on, when its answer is about to be written, or,
// with a nil Response, when it is known that there will be none: it was lost, or the connection is
// being cut. Requests gives the last exchanges without records; f sees all of them, whole.
//
// f is called without locks on a goroutine of the request's connection, for different connections
// at the same time. It may call methods of the Server, but for those that stop a broker; it must
// not wait, nor change the exchange or keep it. stop ends it; a call under way may still go on. A
// nil f fails the test.
func (s *Server) Observe(f func(*kafka.Exchange)) (stop func()) {
	s.t.Helper()
	if f == nil {
		s.t.Fatalf("kafkatest: Observe: f is nil")
	}
	if s.clock != nil {
		f = s.clock.observer(f)
	}
	return s.itself().in.observe(f)
}

// Restart stops all brokers in good order and starts them again on the same addresses with the data
// they had, those too that were stopped or killed: clients see their connections cut. Faults and
// the history stay. It returns when the brokers serve, or fails the test.
func (s *Server) Restart() {
	s.t.Helper()
	s.within(func(s *Server, _ *visit) { s.restart() })
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

// takeTurn waits until nobody else starts or stops anything, and fails the test if the server has
// ended. The caller defers release.
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
	s.in.end()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if err := s.stop(); err != nil {
		s.t.Logf("kafkatest: stop: %v", err) // what the test did to the disk is its own affair
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
