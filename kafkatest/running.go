package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// running is a server that has been started.
type running struct {
	cluster *strata.Cluster
	kafka   *kafka.Server
	served  sync.WaitGroup
	told    sync.WaitGroup // goroutines that record events
	once    sync.Once
	stopErr error

	mu  sync.Mutex // guards the field below
	err error      // error of the listeners
}

// start opens the cluster and serves it.
func (s *Server) start() error {
	brokers, specs := s.brokers()
	defaults := s.cfg.Defaults
	if s.cfg.Replicas > 0 {
		defaults.ReplicationFactor = s.cfg.Replicas
	}
	cluster, err := strata.Open(strata.Config{Brokers: brokers, BrokerSpecs: specs, Dir: s.cfg.Dir, FS: s.fs, Defaults: defaults, Group: s.cfg.Group, Transactions: s.cfg.Transactions, Shares: s.cfg.Shares,
		Properties: s.cfg.Properties, Logger: s.cfg.Logger, ReplicaSelector: s.cfg.ReplicaSelector})
	if err != nil {
		return err
	}
	if err := s.stayRemoved(cluster.Backend().Cluster); err != nil {
		return errors.Join(err, cluster.Close())
	}
	if err := s.createUsers(context.Background(), cluster); err != nil {
		return errors.Join(err, cluster.Close())
	}
	r := &running{cluster: cluster}
	if !s.cfg.NoTimeline {
		s.in.happened.follow(&r.told, cluster)
	}
	r.kafka = kafka.NewServer(cluster, kafka.Config{Logger: s.cfg.Logger, Intercept: s.in, Security: s.security(cluster), NoAutoCreate: !s.cfg.AutoCreate, PartialBatches: true, Authorization: s.cfg.authorization(), DelegationTokens: s.cfg.DelegationTokens,
		Telemetry: s.cfg.Telemetry, VersionCaps: versionCaps(s.cfg.Release, s.cfg.VersionCaps), Limits: s.limits()})
	lns, addrs := map[int32]net.Listener{}, map[int32]string{}
	for _, broker := range cluster.Backend().Brokers() {
		ln, err := s.listen(broker)
		if err != nil {
			for _, ln := range lns {
				ln.Close()
			}
			return errors.Join(err, r.stop())
		}
		lns[broker], addrs[broker] = ln, ln.Addr().String()
	}
	s.mu.Lock()
	s.running, s.addrs = r, addrs
	s.mu.Unlock()
	return r.serve(lns)
}

// limits returns the brokers' limits for clients. With Config.Clock the time of the brokers bounds
// no action that a client takes in real time. Otherwise an Advance would cut off clients that are
// just connecting, sending or reading, or are idle.
func (s *Server) limits() (l kafka.Limits) {
	if s.host != nil {
		l.FirstRequest, l.WholeRequest, l.Idle, l.SlowReader = forever, forever, forever, forever
	}
	return l
}

// forever is longer than any Advance, and does not overflow a time.
const forever = 100 * 365 * 24 * time.Hour

// stop stops the running server, if there is one.
func (s *Server) stop() error {
	s.mu.Lock()
	r := s.running
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.stop()
}

// serve serves listeners until stop. When it returns, responses list their brokers.
func (r *running) serve(lns map[int32]net.Listener) error {
	serve, err := r.kafka.Announce(lns)
	if err != nil {
		return err
	}
	r.served.Go(func() {
		if err := serve(); !errors.Is(err, kafka.ErrServerClosed) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = errors.Join(r.err, err)
		}
	})
	return nil
}

func (r *running) stop() error {
	r.once.Do(func() {
		err := r.kafka.Close()
		r.served.Wait()
		r.stopErr = errors.Join(err, r.err, r.cluster.Close())
		r.told.Wait()
	})
	return r.stopErr
}

// brokers returns the brokers to start, from the Config and added later, with their directories.
func (s *Server) brokers() (n int, specs map[int32]replication.BrokerSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	specs = map[int32]replication.BrokerSpec{}
	for id, rack := range s.racks {
		specs[id] = replication.BrokerSpec{Rack: rack}
	}
	n = s.cfg.Brokers
	for id := range s.addrs {
		n = max(n, int(id))
	}
	return n, specs
}

// listen returns a broker's listener; after a restart, at its former address.
func (s *Server) listen(broker int32) (net.Listener, error) {
	address := ""
	s.mu.Lock()
	if before, ok := s.addrs[broker]; ok {
		address = before
	}
	s.mu.Unlock()
	if s.host != nil && !s.cfg.Pipe {
		return s.host.listen(broker, address)
	}
	return s.listenAt(broker, address)
}

// listenAt returns the listener of a broker. before is its former address; "": none.
func (s *Server) listenAt(broker int32, before string) (net.Listener, error) {
	if s.cfg.Pipe {
		// RFC 2606: never a real host
		return s.network.Listen(fmt.Sprintf("broker-%d.kafkatest.invalid:9092", broker))
	}
	if s.cfg.Listen != nil {
		ln, err := s.cfg.Listen(broker)
		if err == nil && ln == nil {
			err = fmt.Errorf("Config.Listen returned neither a listener of broker %d nor an error", broker)
		}
		return ln, err
	}
	if before == "" {
		before = "127.0.0.1:0"
	}
	return plainTCP.Listen(context.Background(), "tcp", before)
}

// plainTCP listens without Multipath TCP, which makes the listener cost half as much again and
// changes nothing on one host.
var plainTCP = func() (c net.ListenConfig) {
	c.SetMultipathTCP(false)
	return c
}()

// createTimeout bounds the creation of the topics of a Config.
const createTimeout = 30 * time.Second

// sameTopic returns an error if a topic of an earlier server does not have that number of
// partitions; 0 means any number.
func (s *Server) sameTopic(ctx context.Context, name string, partitions int) error {
	there, err := s.Cluster().Topic(ctx, name)
	if err == nil && partitions != 0 && len(there.Partitions) != partitions {
		err = fmt.Errorf("topic %q exists with %d partitions, Config has %d", name, len(there.Partitions), partitions)
	}
	return err
}

func (s *Server) createTopics() error {
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	for name, cfg := range s.cfg.topics() {
		err := s.Cluster().CreateTopic(ctx, name, cfg)
		if errors.Is(err, replication.ErrTopicExists) {
			err = s.sameTopic(ctx, name, cfg.Partitions)
		}
		if err != nil {
			return err
		}
	}
	return s.Cluster().CreateACLs(ctx, s.cfg.ACLs...)
}
