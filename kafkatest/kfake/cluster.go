package kfake

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A Cluster is a Kafka cluster for a test. Its methods are safe for concurrent use. After Close
// they do nothing.
type Cluster struct {
	cfg      config
	life     *life
	server   *kafkatest.Server
	controls *controls
	canned   *canned // SyntheticFetch; nil: none

	closing chan struct{} // closed by Close
	close   sync.Once

	coordinators sync.Once // creates their topics; see coordinate

	mu    sync.Mutex              // guards the fields below
	ports map[int32]int           // port to listen on, by broker
	gone  map[int32]chan struct{} // by broker; closed when the broker is removed
}

// MustCluster is NewCluster, except that it panics on an error.
func MustCluster(opts ...Opt) *Cluster {
	c, err := NewCluster(opts...)
	if err != nil {
		panic(err)
	}
	return c
}

// NewCluster returns a cluster that serves. The caller must close it. It returns an error for
// options that are invalid, contradict each other or are not supported, and if a port is in use.
func NewCluster(opts ...Opt) (*Cluster, error) {
	cfg := config{brokers: 3, clusterID: "kfake", defaultPartitions: 10, listen: net.Listen, minSession: 6 * time.Second, maxSession: 5 * time.Minute}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("kfake: option %d is nil", i)
		}
		o.apply(&cfg)
	}
	if len(cfg.ports) > 0 {
		cfg.brokers = len(cfg.ports)
	}
	c := &Cluster{cfg: cfg, life: &life{logger: cfg.logger}, closing: make(chan struct{}), ports: map[int32]int{}, gone: map[int32]chan struct{}{}}
	c.controls = newControls(c.closing)
	for i, port := range cfg.ports {
		c.ports[brokerOf(int32(i))] = port
	}
	server, err := c.settings()
	if err != nil {
		return nil, fmt.Errorf("kfake: %w", err)
	}
	fresh := cfg.dir == "" || isEmpty(cfg.dir)
	err = attempt(func() { c.server = kafkatest.New(c.life, server) })
	if err == nil && fresh {
		err = c.seed()
	}
	if err == nil {
		err = c.setPasswords()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("kfake: %w", err)
	}
	return c, nil
}

// Close ends the cluster and cuts its connections. It ends SleepControl in control functions, but
// does not wait for a control function that blocks elsewhere. A second Close returns at once.
func (c *Cluster) Close() {
	c.close.Do(func() {
		close(c.closing)
		if err := attempt(c.life.end); err != nil && c.cfg.logger != nil {
			c.cfg.logger.Logf(LogLevelError, "close: %v", err)
		}
	})
}

// ListenAddrs returns the addresses of the brokers, host:port, in the order of their node ids.
func (c *Cluster) ListenAddrs() []string { return c.server.Addrs() }

// inside returns the cluster that the brokers serve.
func (c *Cluster) inside() strata.Backend { return c.server.Cluster().Backend() }

// adminTimeout bounds the waits of methods without a context. It is reached only after a failure,
// such as a replica that does not come into sync.
const adminTimeout = 30 * time.Second

// context returns a context for a method without one. It ends with the cluster.
func (c *Cluster) context() (context.Context, context.CancelFunc) { return c.contextUntil(nil) }

// contextUntil is context, except that it also ends when a broker is removed.
func (c *Cluster) contextUntil(gone <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	go func() {
		select {
		case <-c.closing:
			cancel()
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// settings translates the options, except topics and users, which are created once the cluster
// serves.
func (c *Cluster) settings() (kafkatest.Config, error) {
	cfg := &c.cfg
	switch {
	case cfg.brokers < 1:
		return kafkatest.Config{}, fmt.Errorf("%d brokers: must be at least 1", cfg.brokers)
	case cfg.listen == nil:
		return kafkatest.Config{}, errors.New("ListenFn(nil): must be a function")
	case cfg.defaultPartitions < 1:
		return kafkatest.Config{}, fmt.Errorf("DefaultNumPartitions(%d): a topic has at least one partition", cfg.defaultPartitions)
	}
	s := kafkatest.Config{
		Brokers: cfg.brokers, Replicas: min(cfg.brokers, defaultReplicas), Defaults: topic.Config{Partitions: cfg.defaultPartitions},
		AutoCreate: cfg.autoCreate, Dir: cfg.dir, Sync: cfg.sync && cfg.dir != "", Listen: c.listen, Intercept: intercept{c}, Logger: newLogger(cfg.logger),
		BlackholeProduce: cfg.blackhole, VersionCaps: versionCaps(cfg.versions), Properties: map[string]string{},
	}
	s.Group.MinSessionTimeout, s.Group.MaxSessionTimeout = cfg.minSession, cfg.maxSession
	s.Group.OffsetsPartitions, s.Transactions.Topic.Partitions, s.Shares.Topic.Partitions = statePartitions, statePartitions, statePartitions
	s.Group.ConsumerAssignmentInterval, s.Group.ShareAssignmentInterval = group.Unlimited, group.Unlimited
	s.Properties["auto.leader.rebalance.enable"] = "false" // leaders stay where a test moves them
	if testing.Testing() {
		s.Group.ConsumerHeartbeatInterval = testHeartbeat
	}
	cfg.sasl = cfg.sasl || cfg.acls && len(cfg.users) > 0 // otherwise no client could authenticate
	if cfg.sasl {
		s.Users = map[string]string{}
		if len(cfg.users) == 0 {
			cfg.users = []user{{methodScram256, "admin", "admin", true}}
		}
	}
	if cfg.acls {
		s.Authorization.Enabled = true
		for _, u := range cfg.users {
			if u.super {
				s.Authorization.SuperUsers = append(s.Authorization.SuperUsers, "User:"+u.name)
			}
		}
		for _, e := range cfg.entries {
			s.ACLs = append(s.ACLs, e.entry())
		}
	}
	if cfg.synthetic != nil {
		var err error
		if c.canned, err = newCanned(*cfg.synthetic); err != nil {
			return s, err
		}
	}
	return s, c.setProperties(&s)
}

const (
	defaultReplicas = 3
	// statePartitions is the number of partitions of the coordinators' topics: enough for each
	// broker to get some, and few to open.
	statePartitions = 9
	testHeartbeat   = 100 * time.Millisecond
)

// versionCaps translates the versions of MaxVersions.
func versionCaps(v *kversion.Versions) map[kafka.Key]int16 {
	if v == nil {
		return nil
	}
	caps := map[kafka.Key]int16{}
	for key := range kafka.Key(maxKey) {
		lowest, _, served := kafka.ServedVersions(key)
		if !served {
			continue
		}
		caps[key] = kafka.NotServed
		if version, ok := v.LookupMaxKeyVersion(int16(key)); ok && version >= lowest {
			caps[key] = version
		}
	}
	return caps
}

// maxKey is above the keys of all requests.
const maxKey = 128

// entry translates an ACL of a user.
func (e entry) entry() acl.Entry {
	permission := acl.Deny
	if e.Allow {
		permission = acl.Allow
	}
	return acl.Entry{
		ResourceType: acl.ResourceType(e.Resource), ResourceName: e.Name, PatternType: acl.PatternType(e.Pattern),
		Principal: "User:" + e.user, Host: cmp.Or(e.Host, acl.Wildcard), Operation: acl.Operation(e.Operation), Permission: permission,
	}
}

// seed creates the topics of SeedTopics.
func (c *Cluster) seed() error {
	partitions := map[string]int{}
	for _, s := range c.cfg.seeds {
		for _, name := range s.topics {
			partitions[name] = c.cfg.defaultPartitions
			if s.partitions > 0 {
				partitions[name] = int(s.partitions)
			}
		}
	}
	ctx, cancel := c.context()
	defer cancel()
	for name, n := range partitions {
		if err := c.inside().Cluster.CreateTopic(ctx, name, topic.Config{Partitions: n}); err != nil {
			return err
		}
	}
	return nil
}

// The methods of users.
const (
	methodPlain    = "PLAIN"
	methodScram256 = "SCRAM-SHA-256"
	methodScram512 = "SCRAM-SHA-512"
)

// setPasswords sets the passwords of the users, except of users that a directory already has.
func (c *Cluster) setPasswords() error {
	ctx, cancel := c.context()
	defer cancel()
	there := c.inside().ScramUsers()
	for _, u := range c.cfg.users {
		var mechanisms []replication.ScramMechanism // both
		switch u.method {
		case methodPlain:
		case methodScram256:
			mechanisms = []replication.ScramMechanism{replication.ScramSHA256}
		case methodScram512:
			mechanisms = []replication.ScramMechanism{replication.ScramSHA512}
		default:
			return fmt.Errorf("user %s: unknown SASL mechanism %q", u.name, u.method)
		}
		if !c.cfg.sasl || c.cfg.dir != "" && len(there[u.name]) > 0 {
			continue
		}
		if err := c.inside().SetPassword(ctx, u.name, u.password, mechanisms...); err != nil {
			return err
		}
	}
	return nil
}

// listen returns a broker's listener.
func (c *Cluster) listen(broker int32) (net.Listener, error) {
	c.mu.Lock()
	port := c.ports[broker]
	c.mu.Unlock()
	ln, err := c.cfg.listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil || ln == nil || c.cfg.tls == nil {
		return ln, err
	}
	return tls.NewListener(ln, c.cfg.tls), nil
}

// isEmpty reports whether a directory is empty or does not exist.
func isEmpty(dir string) bool {
	found, err := os.ReadDir(filepath.Clean(dir))
	return errors.Is(err, os.ErrNotExist) || err == nil && len(found) == 0
}

// life stands for the test of a kafkatest.Server: Fatalf panics with a failure, which attempt turns
// into an error.
type life struct {
	logger Logger // nil: nothing is logged

	mu       sync.Mutex
	cleanups []func()
}

type failure struct{ err error }

// Helper implements kafkatest.T.
func (*life) Helper() {}

// Logf implements kafkatest.T. It is called for clients that send requests in a loop, and at the
// end of a server for a failed disk.
func (l *life) Logf(format string, args ...any) {
	if l.logger != nil {
		l.logger.Logf(LogLevelWarn, format, args...)
	}
}

// Fatalf implements kafkatest.T.
func (*life) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Cleanup implements kafkatest.T.
func (l *life) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

// end runs the functions that were passed to Cleanup, the last one first.
func (l *life) end() {
	l.mu.Lock()
	all := l.cleanups
	l.cleanups = nil
	l.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f()
	}
}

// attempt runs f and returns its failure as an error.
func attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		default:
			panic(p)
		}
	}()
	f()
	return nil
}
