package kfake

import (
	"crypto/tls"
	"maps"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// An Opt is an option of NewCluster. If an option is given several times the last one applies,
// except for options that add up.
type Opt interface {
	apply(*config)
}

type option func(*config)

func (o option) apply(cfg *config) { o(cfg) }

// config has the values of the options.
type config struct {
	brokers           int
	ports             []int
	listen            func(network, address string) (net.Listener, error)
	tls               *tls.Config
	logger            Logger
	clusterID         string
	autoCreate        bool
	seeds             []seed
	minSession        time.Duration
	maxSession        time.Duration
	sasl              bool
	users             []user
	acls              bool
	entries           []entry
	versions          *kversion.Versions
	properties        map[string]string
	dir               string
	sync              bool
	blackhole         bool
	synthetic         *SyntheticBatch
	defaultPartitions int
}

type seed struct {
	partitions int32
	topics     []string
}

type user struct {
	method, name, password string
	super                  bool
}

type entry struct {
	user string
	ACL
}

// NumBrokers sets the number of brokers, 1 to 100; the default is 3. Node ids count from 0.
func NumBrokers(n int) Opt { return option(func(cfg *config) { cfg.brokers = n }) }

// Ports sets the ports of the brokers on 127.0.0.1, and with that their number: NumBrokers is
// ignored. Port 0 is any free port.
func Ports(ports ...int) Opt { return option(func(cfg *config) { cfg.ports = ports }) }

// ListenFn sets the function that replaces net.Listen. It is called with "tcp" and an address on
// 127.0.0.1.
func ListenFn(fn func(network, address string) (net.Listener, error)) Opt {
	return option(func(cfg *config) { cfg.listen = fn })
}

// TLS makes all listeners serve TLS with c, which must have a certificate. c is not changed.
func TLS(c *tls.Config) Opt { return option(func(cfg *config) { cfg.tls = c }) }

// WithLogger sets the receiver of the cluster's log. nil discards it.
func WithLogger(logger Logger) Opt { return option(func(cfg *config) { cfg.logger = logger }) }

// ClusterID sets the cluster id in responses. The default is "kfake".
func ClusterID(clusterID string) Opt { return option(func(cfg *config) { cfg.clusterID = clusterID }) }

// AllowAutoTopicCreation makes a metadata request create missing topics that it names, if the
// request allows it. Kafka: auto.create.topics.enable.
func AllowAutoTopicCreation() Opt { return option(func(cfg *config) { cfg.autoCreate = true }) }

// DefaultNumPartitions sets the default number of partitions of a new topic; 10 unless set. Kafka:
// num.partitions.
func DefaultNumPartitions(n int) Opt { return option(func(cfg *config) { cfg.defaultPartitions = n }) }

// GroupMinSessionTimeout sets the shortest session timeout that a member of a classic group may
// request; 6 s unless set. Kafka: group.min.session.timeout.ms.
func GroupMinSessionTimeout(d time.Duration) Opt {
	return option(func(cfg *config) { cfg.minSession = d })
}

// GroupMaxSessionTimeout sets the longest session timeout that a member of a classic group may
// request; 5 min unless set. Kafka: group.max.session.timeout.ms.
func GroupMaxSessionTimeout(d time.Duration) Opt {
	return option(func(cfg *config) { cfg.maxSession = d })
}

// SeedTopics creates topics, each with the given number of partitions, or DefaultNumPartitions if
// that is below 1. Several SeedTopics add up; for a topic that is named several times the last
// number applies. A DataDir that already has a cluster keeps its topics, and gets no others.
func SeedTopics(partitions int32, ts ...string) Opt {
	return option(func(cfg *config) { cfg.seeds = append(cfg.seeds, seed{partitions, ts}) })
}

// EnableSASL requires that clients authenticate as a Superuser or User. Without such an option
// there is a super user admin with the password admin for SCRAM-SHA-256.
func EnableSASL() Opt { return option(func(cfg *config) { cfg.sasl = true }) }

// Superuser adds a user with all permissions, independent of ACLs. The method is PLAIN,
// SCRAM-SHA-256 or SCRAM-SHA-512; see the deviations in the package documentation.
func Superuser(method, user, pass string) Opt { return addUser(method, user, pass, true) }

// User adds a user with the permissions of its ACLs, which need EnableACLs. The Principal field of
// the ACLs is ignored: it is the user. The method is one of those of Superuser.
func User(method, user, pass string, acls ...ACL) Opt {
	add := addUser(method, user, pass, false)
	return option(func(cfg *config) {
		add.apply(cfg)
		for _, a := range acls {
			cfg.entries = append(cfg.entries, entry{user, a})
		}
	})
}

func addUser(method, name, password string, super bool) Opt {
	return option(func(cfg *config) {
		cfg.users = append(cfg.users, user{method: method, name: name, password: password, super: super})
	})
}

// EnableACLs turns authorization on. A request that no ACL allows is denied, except to a Superuser.
func EnableACLs() Opt { return option(func(cfg *config) { cfg.acls = true }) }

// An ACL allows or denies an operation on a resource to a User.
type ACL struct {
	Principal string                      // ignored: it is the user of the option User
	Resource  kmsg.ACLResourceType        // type of the resource
	Name      string                      // name of the resource; "*" with a literal Pattern: all of the type
	Pattern   kmsg.ACLResourcePatternType // literal or prefixed
	Operation kmsg.ACLOperation           // operation that is allowed or denied
	Allow     bool                        // false: deny
	Host      string                      // address of the client; "": any
}

// SleepOutOfOrder has no effect. In kfake it lets other connections continue while a control
// function sleeps, with responses on each connection in the order of its requests. Here that is
// always so.
func SleepOutOfOrder() Opt { return option(func(*config) {}) }

// MaxVersions sets the highest version of each API that the cluster offers, as far as it has that
// version. An API that is not in v is not offered.
func MaxVersions(v *kversion.Versions) Opt { return option(func(cfg *config) { cfg.versions = v }) }

// BrokerConfigs sets settings of the brokers by Kafka's names. An empty value is the default.
// Several BrokerConfigs add up. NewCluster returns an error for a setting that the brokers do not
// use.
func BrokerConfigs(configs map[string]string) Opt {
	return option(func(cfg *config) {
		if cfg.properties == nil {
			cfg.properties = map[string]string{}
		}
		maps.Copy(cfg.properties, configs)
	})
}

// DataDir stores the data in a directory, which is created if needed. It has Strata's format; a
// directory of franz-go's kfake cannot be read.
func DataDir(dir string) Opt { return option(func(cfg *config) { cfg.dir = dir }) }

// SyncWrites makes acknowledged records survive a power cut, and not only the end of the process.
// It needs DataDir.
func SyncWrites() Opt { return option(func(cfg *config) { cfg.sync = true }) }

// BlackholeProduce checks and acknowledges produced records, and discards them. Offsets, sequences
// and transactions work as usual, and there is nothing to consume. A header of 61 bytes remains of
// each batch.
func BlackholeProduce() Opt { return option(func(cfg *config) { cfg.blackhole = true }) }

// SyntheticFetch answers fetches of existing partitions with copies of one batch, from the
// requested offset on, whatever the log has. The partitions appear to begin at 0 and end at 1<<62.
// It does not affect producing and share groups.
func SyntheticFetch(b SyntheticBatch) Opt { return option(func(cfg *config) { cfg.synthetic = &b }) }
