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

// T is the part of testing.TB that New needs. A program can implement it.
type T interface {
	Helper()
	Cleanup(func())        // registers a function that a program must call when it ends
	Fatalf(string, ...any) // must not return: it ends the test's goroutine, panics or exits
	Logf(format string, args ...any)
}

// Config describes a Server. The zero Config is one broker in memory, on TCP, without topics.
type Config struct {
	// Brokers is the number of brokers, at most 100. Their ids count from 1. 0 means the brokers
	// that Dir or FS already has, or 1 if there are none. Each broker leads its share of the
	// partitions.
	Brokers int
	// Replicas is the default replication factor of topics; 0 means the one of Defaults, which is 1
	// unless set. Kafka: default.replication.factor.
	Replicas int
	// Racks are the racks of the brokers, in the order of their ids: one for each broker, or none.
	Racks []string
	// ReplicaSelector selects the replica that a consumer reads from. With
	// replication.RackAwareSelector a client that sends its rack reads from an in-sync follower in
	// that rack (KIP-392). Kafka: replica.selector.class.
	ReplicaSelector replication.ReplicaSelector

	// Topics are the names and numbers of partitions of topics that New creates. A topic that
	// exists in Dir or FS stays as it is, but must have that number of partitions.
	Topics map[string]int
	// TopicConfigs are topics with settings that New creates. A topic that is also in Topics has
	// the number of partitions given there.
	TopicConfigs map[string]topic.Config
	// Defaults are the default settings of topics, including topics that clients create.
	Defaults topic.Config
	// AutoCreate creates a topic when a client first requests it, as Kafka does by default
	// (auto.create.topics.enable). Without it a misspelled topic is an error.
	AutoCreate bool

	// Authorization controls the permissions of principals. The zero value allows everything. The
	// principal of a client without authentication is User:ANONYMOUS.
	Authorization kafka.Authorization
	// ACLs are access control entries that New creates. If there are any, requests are authorized.
	ACLs []acl.Entry

	// Dir is the directory of the data. "" means memory.
	Dir string
	// Sync makes brokers wait for the disk as in production. Without it acknowledged records
	// survive the end of the process, but not a power cut, and a test takes a tenth of the time. It
	// needs a Dir and cannot be used with FS, which is always synced.
	Sync bool
	// FS is the file system of Dir. A vfs.MemFS can simulate a power cut; a vfs.MemFS and a
	// vfs.FaultFS return errors on demand. nil means the operating system's if Dir is set, else
	// memory.
	FS vfs.FS

	// Listen returns the listener of a broker, for a fixed port, another network, or TLS with other
	// certificates (tls.NewListener). It is called for each start of a broker. Clients get the
	// address of the listener. nil means a free port on 127.0.0.1. It cannot be used with Pipe.
	Listen func(broker int32) (net.Listener, error)

	// Pipe replaces TCP by an in-memory network, which clients reach only with Server.Dial. It
	// needs no ports, and it is the only network that works in a testing/synctest bubble.
	Pipe bool

	// Clock gives the server its own clock, which runs with real time and which Server.Advance
	// moves forward. Sessions, transactions and retention expire by it, while the test and its
	// clients use real time. See the package documentation. It needs a *testing.T outside of a
	// testing/synctest bubble.
	Clock bool

	// TLS makes brokers serve TLS, with certificates created for the test: see Server.TLS and
	// DialTLS. The name in a client certificate from Server.TLS is the client's principal. The
	// principal of a client without a certificate is User:ANONYMOUS.
	TLS bool
	// ClientCerts is TLS with required client certificates. Kafka: ssl.client.auth=required.
	ClientCerts bool
	// Users are passwords by user name. If it is not nil, clients must authenticate: with a
	// password by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, or by OAUTHBEARER with a token of
	// kafka.NewUnsecuredJWTForTests. If it is empty but not nil, only a token works until a user is
	// added (Cluster().SetPassword).
	Users map[string]string
	// DelegationTokens configures delegation tokens, which need Users. They are off if Secret is
	// empty.
	DelegationTokens kafka.DelegationTokens

	// BlackholeProduce discards the records of clients after checking them, and acknowledges them.
	// A benchmark of producers then fills neither memory nor disk. Offsets, sequences and
	// transactions work as usual: a partition keeps batches without records, 61 bytes each, and has
	// nothing to consume. Records of Server.Fill and of producers of Server.Cluster are kept.
	BlackholeProduce bool

	// Release is the broker release to imitate in APIs and versions. VersionCaps are highest
	// versions of single APIs, which override the release; kafka.NotServed hides an API. New fails
	// the test for an API that is not served or a version below the served ones
	// (kafka.ServedVersions).
	Release     Release
	VersionCaps map[kafka.Key]int16

	// Group are the settings of the group coordinator. Unlike in Kafka, a new group does not wait 3
	// s for more members before its first rebalance: set InitialRebalanceDelay for that.
	Group group.Config

	// Transactions are the settings of the transaction coordinator. Version is the level of the
	// feature transaction.version: transaction.LevelZero, 1, or 2, which is the default. With a
	// Release before 4.0 it is at most 1.
	Transactions transaction.Config

	// Shares are the settings of share groups.
	Shares share.Config

	// Properties are broker settings by Kafka's names, including the brokers' defaults of topic
	// settings. See strata.Config.
	Properties map[string]string

	// Intercept handles each request before the faults. Faults do not get a request that it
	// answers, drops or cuts off, and get the replacement of a request that it replaces. Its Edit
	// is applied after theirs. Unlike in package kafka, its Before may block: later requests on the
	// same connection wait, and so does the end of the server.
	Intercept kafka.Interceptor

	// NoTimeline turns off the timeline that a failed test logs, and its file: see Server.Timeline.
	NoTimeline bool

	// Telemetry makes clients push their metrics (KIP-714). It is off if Receive is nil. Receive is
	// called while the push is served: it must not block.
	Telemetry kafka.Telemetry

	// WaitTimeout bounds each of the waiting methods, and Advance. 0 means 30 s, or 10 min of
	// virtual time. The deadline of the test bounds them too.
	WaitTimeout time.Duration

	// Logger receives the logs of the brokers. nil discards them.
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
		return errors.New("Sync without a Dir, or with an FS: it applies only to a directory of the operating system")
	}
	if c.Listen != nil && c.Pipe {
		return errors.New("only one of Listen and Pipe may be set")
	}
	if t := c.Telemetry; t.Receive == nil && (t.Interval != 0 || t.Metrics != nil) {
		return errors.New("a Telemetry without Receive has no effect")
	}
	if c.DelegationTokens.Secret != "" && c.Users == nil {
		return errors.New("DelegationTokens without Users: only authenticated clients get tokens")
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

// authorization returns the authorization of the brokers.
func (c *Config) authorization() kafka.Authorization {
	a := c.Authorization
	a.Enabled = a.Enabled || len(c.ACLs) > 0
	return a
}

// maxBrokers bounds the brokers of a test, so that a mistyped number does not open thousands of
// listeners.
const maxBrokers = 100

// racks returns the rack of each broker.
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
