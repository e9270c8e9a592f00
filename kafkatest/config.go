package kafkatest

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"time"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// T is what New needs of a test. Every testing.TB is one, and a program can be.
type T interface {
	Helper()
	Cleanup(func())        // New registers what has to be closed; a program runs it when it ends
	Fatalf(string, ...any) // must not return: it ends the test's goroutine, panics or exits
	Logf(format string, args ...any)
}

// Config describes a Server. The zero Config is one broker in memory, on TCP, without topics.
type Config struct {
	// Brokers is the number of brokers, which have the ids 1 to that. 0 means those that Dir or FS
	// already has, and 1 if there are none; more than 100 are refused. Each leads its share of the
	// partitions.
	Brokers int
	// Replicas is the replication factor of topics that say nothing else; 0 means that of Defaults,
	// which is 1 unless set. Kafka: default.replication.factor.
	Replicas int
	// Racks are the racks of the brokers, in the order of their ids; one for each, or none.
	Racks []string
	// ReplicaSelector: replication.RackAwareSelector has clients that tell their rack read from an
	// in-sync follower there (KIP-392). Kafka: replica.selector.class.
	ReplicaSelector replication.ReplicaSelector

	// Topics are created before New returns: name and number of partitions.
	Topics map[string]int
	// TopicConfigs are the settings of topics, created too; one that is in Topics as well
	// has the partitions that Topics says.
	TopicConfigs map[string]topic.Config
	// Defaults are the settings of topics that say nothing else, also of those that clients create.
	Defaults topic.Config
	// AutoCreate makes topics come into being when a client first asks for them, as Kafka does
	// unless told otherwise (auto.create.topics.enable). Without it a misspelled topic is an error.
	AutoCreate bool

	// Authorization is who may do what; the zero value: everybody everything. Clients that are not
	// authenticated are User:ANONYMOUS.
	Authorization kafka.Authorization
	// ACLs are access control entries that are made before New returns; if there are any, requests
	// are authorized.
	ACLs []acl.Entry

	// Dir is where the data goes. Empty: memory.
	Dir string
	// Sync waits for the disk wherever a broker does. Without it what is acknowledged survives the
	// process, but not a power cut, and a test takes a tenth of the time. It has no meaning if FS
	// is set: a file system of the test's own is always synced.
	Sync bool
	// FS is the file system of Dir: a vfs.MemFS can lose power, it and a vfs.FaultFS fail on
	// demand. nil: the operating system's if there is a Dir, else memory.
	FS vfs.FS

	// Listen returns the listener of a broker: a fixed port, a network of the test's own, TLS with
	// the test's own certificates (tls.NewListener). It is called once for each broker when it
	// starts, and again each time that it is started anew. Clients are told the address of the
	// listener. nil: a free port on 127.0.0.1. It does not go with Pipe.
	Listen func(broker int32) (net.Listener, error)

	// Pipe replaces TCP by a network in memory, which clients reach with Server.Dial only. It is
	// the one that works in a testing/synctest bubble, and needs no ports.
	Pipe bool

	// Clock gives the server a clock of its own, which goes on with real time and which
	// Server.Advance moves: sessions and transactions time out and retention passes while the test,
	// its clients and whatever else talks to the server are in real time. See the package's
	// documentation. It needs a *testing.T that is in no testing/synctest bubble.
	Clock bool

	// TLS has clients connect with TLS, to certificates that are made for the test: see Server.TLS
	// and DialTLS. A client that shows a certificate of the test's is who it names, and any other
	// one User:ANONYMOUS.
	TLS bool
	// ClientCerts is TLS where every client has to show such a certificate. Kafka:
	// ssl.client.auth=required.
	ClientCerts bool
	// Users are passwords by user: clients have to authenticate with one of them, by PLAIN,
	// SCRAM-SHA-256 or SCRAM-SHA-512, or by OAUTHBEARER with a token of
	// kafka.NewUnsecuredJWTForTests. nil: nobody has to; empty: nobody but with a token can, until
	// there are users (Cluster().SetPassword).
	Users map[string]string
	// DelegationTokens are for Users, unless Secret is empty.
	DelegationTokens kafka.DelegationTokens

	// BlackholeProduce has what clients produce checked, acknowledged and thrown away, so that a
	// benchmark of producers does not fill the memory, or the disk. Offsets, sequences and
	// transactions go on as without it: a partition holds batches without records, 61 bytes each,
	// and there is nothing to consume. What Server.Fill writes, and who uses Server.Cluster, is
	// kept.
	BlackholeProduce bool

	// Release is the broker to pass for; VersionCaps are the highest versions of single APIs to
	// offer, over those of the release, with kafka.NotServed for none. Versions below those that
	// are served (kafka.ServedVersions) are refused, as are APIs that are not.
	Release     Release
	VersionCaps map[kafka.Key]int16

	// Group are the settings of the group coordinator. Unlike Kafka's a new group does not wait for
	// more members before its first rebalance (Kafka: 3 s): set InitialRebalanceDelay to have that.
	Group group.Config

	// Transactions are the settings of the transaction coordinator. Version is the level of
	// transaction.version that clients are told of: transaction.LevelZero, 1 or 2, which is the
	// default. A Release before 4.0 has 1 at most.
	Transactions transaction.Config

	// Shares say how records are handed out to share groups.
	Shares share.Config

	// Properties are settings of the brokers under Kafka's names, and defaults of topics under
	// Kafka's names for brokers. See strata.Config.
	Properties map[string]string

	// Intercept sees each request before the faults do, and decides first: of a request that it
	// answers, drops or cuts off the faults hear nothing, what it serves instead they see instead,
	// and its Edit comes after theirs. Unlike elsewhere its Before may wait: the requests behind it
	// on the same connection wait, too, and so does the end of the server.
	Intercept kafka.Interceptor

	// Telemetry has clients push what they measure of themselves (KIP-714), and takes it in. Without
	// a Receive they are not asked. Receive is called while the push is served: it must not block.
	Telemetry kafka.Telemetry

	// WaitTimeout bounds each of the waiting methods, and Advance. 0: 30 s, or 10 min of virtual
	// time. A test's own deadline bounds them too.
	WaitTimeout time.Duration

	// Logger gets what the broker logs; nil discards it.
	Logger *slog.Logger
}

// check returns why cfg cannot be served.
func (c *Config) check() error {
	if c.Brokers > maxBrokers {
		return fmt.Errorf("%d brokers: there can be %d", c.Brokers, maxBrokers)
	}
	if c.Brokers < 0 {
		return errors.New("a negative number of brokers")
	}
	if c.Replicas < 0 {
		return errors.New("a negative number of replicas")
	}
	if c.Brokers > 0 && c.Replicas > c.Brokers || c.Brokers == 0 && c.Dir == "" && c.FS == nil && c.Replicas > 1 {
		return fmt.Errorf("%d replicas of a partition with %d brokers", c.Replicas, max(c.Brokers, 1))
	}
	if n := len(c.Racks); n > 0 && n != max(c.Brokers, 1) {
		return fmt.Errorf("%d racks for %d brokers", n, max(c.Brokers, 1))
	}
	if _, known := releaseVersions[c.Release]; !known && c.Release != Latest {
		return fmt.Errorf("unknown release %d", c.Release)
	}
	if err := checkVersionCaps(c.VersionCaps); err != nil {
		return err
	}
	if c.Sync && (c.Dir == "" || c.FS != nil) {
		return errors.New("Sync without a Dir, or with an FS: it says what happens in a directory of the operating system")
	}
	if c.Listen != nil && c.Pipe {
		return errors.New("both Listen and Pipe say where brokers listen")
	}
	if t := c.Telemetry; t.Receive == nil && (t.Interval != 0 || t.Metrics != nil) {
		return errors.New("a Telemetry without Receive: clients are not asked for it")
	}
	if c.DelegationTokens.Secret != "" && c.Users == nil {
		return errors.New("DelegationTokens without Users: who has not authenticated gets none")
	}
	if c.WaitTimeout < 0 {
		return errors.New("a negative WaitTimeout")
	}
	if err := c.authorization().Validate(); err != nil {
		return err
	}
	for name, partitions := range c.Topics {
		if p := c.TopicConfigs[name].Partitions; p != 0 && p != partitions {
			return fmt.Errorf("topic %s has %d partitions in Topics and %d in TopicConfigs", name, partitions, p)
		}
	}
	return nil
}

// authorization is what the servers go by.
func (c *Config) authorization() kafka.Authorization {
	a := c.Authorization
	a.Enabled = a.Enabled || len(c.ACLs) > 0
	return a
}

// maxBrokers is how many a test can have: a mistyped number shall not open thousands of listeners.
const maxBrokers = 100

// racks says in which rack each broker is.
func (c *Config) racks() map[int32]string {
	racks := map[int32]string{}
	for i, rack := range c.Racks {
		racks[int32(i+1)] = rack
	}
	return racks
}

// topics returns all topics to create.
func (c *Config) topics() map[string]topic.Config {
	all := map[string]topic.Config{}
	maps.Copy(all, c.TopicConfigs)
	for name, partitions := range c.Topics {
		t := all[name]
		t.Partitions = partitions
		all[name] = t
	}
	return all
}
