package kfake

import (
	"crypto/tls"
	"maps"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// An Opt is an option of NewCluster. Of options that say the same thing the last one counts, unless
// they are said to add up.
type Opt interface {
	apply(*config)
}

type option func(*config)

func (o option) apply(cfg *config) { o(cfg) }

// config is what the options say.
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

// NumBrokers sets how many brokers the cluster has, 3 unless set. Their node ids count from 0. More
// than 100 are refused.
func NumBrokers(n int) Opt { return option(func(cfg *config) { cfg.brokers = n }) }

// Ports sets the ports on 127.0.0.1 to listen on, one for each broker; NumBrokers has no say then.
// A port 0 is any free one.
func Ports(ports ...int) Opt { return option(func(cfg *config) { cfg.ports = ports }) }

// ListenFn sets what listens, instead of net.Listen. It is called with "tcp" and an address on
// 127.0.0.1.
func ListenFn(fn func(network, address string) (net.Listener, error)) Opt {
	return option(func(cfg *config) { cfg.listen = fn })
}

// TLS has all listeners speak TLS by c, which must hold a certificate and is not changed.
func TLS(c *tls.Config) Opt { return option(func(cfg *config) { cfg.tls = c }) }

// WithLogger sets what gets the cluster's log; nil discards it.
func WithLogger(logger Logger) Opt { return option(func(cfg *config) { cfg.logger = logger }) }

// ClusterID sets the cluster id that clients are told, "kfake" unless set.
func ClusterID(clusterID string) Opt { return option(func(cfg *config) { cfg.clusterID = clusterID }) }

// AllowAutoTopicCreation has metadata requests create the topics that they name and that do not
// exist, if they ask for it. Kafka: auto.create.topics.enable.
func AllowAutoTopicCreation() Opt { return option(func(cfg *config) { cfg.autoCreate = true }) }

// DefaultNumPartitions sets the partitions of topics whose creator does not say how many: 10 unless
// set. Kafka: num.partitions.
func DefaultNumPartitions(n int) Opt { return option(func(cfg *config) { cfg.defaultPartitions = n }) }

// GroupMinSessionTimeout sets the shortest session timeout that a member of a classic group may ask
// for: 6 s unless set. Kafka: group.min.session.timeout.ms.
func GroupMinSessionTimeout(d time.Duration) Opt {
	return option(func(cfg *config) { cfg.minSession = d })
}

// GroupMaxSessionTimeout sets the longest one: 5 min unless set. Kafka:
// group.max.session.timeout.ms.
func GroupMaxSessionTimeout(d time.Duration) Opt {
	return option(func(cfg *config) { cfg.maxSession = d })
}

// SeedTopics has topics created, each with so many partitions; below 1: DefaultNumPartitions. It
// adds up, and of a topic that is named several times the last number counts. A DataDir that
// already holds a cluster keeps the topics that it has, and gets no others.
func SeedTopics(partitions int32, ts ...string) Opt {
	return option(func(cfg *config) { cfg.seeds = append(cfg.seeds, seed{partitions, ts}) })
}

// EnableSASL has clients authenticate, as a Superuser or User. If there is none, there is the super
// user admin with the password admin, by SCRAM-SHA-256.
func EnableSASL() Opt { return option(func(cfg *config) { cfg.sasl = true }) }

// Superuser adds a user that may do anything, whatever the ACLs say. The method is PLAIN,
// SCRAM-SHA-256 or SCRAM-SHA-512; see the package's deviations.
func Superuser(method, user, pass string) Opt { return addUser(method, user, pass, true) }

// User adds a user that may do what its ACLs allow, if there is EnableACLs. The Principal of the
// ACLs is the user, whatever they say. The method is as with Superuser.
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

// EnableACLs has requests authorized. What no ACL allows is denied, except to a Superuser.
func EnableACLs() Opt { return option(func(cfg *config) { cfg.acls = true }) }

// An ACL allows or denies a User something.
type ACL struct {
	Principal string                      // ignored by User, which says whose it is
	Resource  kmsg.ACLResourceType        // what kind of thing it is about
	Name      string                      // of the thing; "*" with a literal Pattern: all of the kind
	Pattern   kmsg.ACLResourcePatternType // literal or prefixed
	Operation kmsg.ACLOperation           // what may be done, or must not
	Allow     bool                        // false: it denies
	Host      string                      // from where; "": anywhere
}

// SleepOutOfOrder is accepted for what it means with one request of a connection at a time: other
// connections go on while a control function sleeps, and answers on one connection come in the
// order of its requests. Both are so here with and without it.
func SleepOutOfOrder() Opt { return option(func(*config) {}) }

// MaxVersions sets the highest version of each API that is offered, as far as the cluster has it.
// An API that v does not have is not offered.
func MaxVersions(v *kversion.Versions) Opt { return option(func(cfg *config) { cfg.versions = v }) }

// BrokerConfigs sets settings of the brokers under Kafka's names; an empty value is the default. It
// adds up. NewCluster returns an error for a name that the brokers do not go by.
func BrokerConfigs(configs map[string]string) Opt {
	return option(func(cfg *config) {
		if cfg.properties == nil {
			cfg.properties = map[string]string{}
		}
		maps.Copy(cfg.properties, configs)
	})
}

// DataDir keeps the data in a directory, which is created if needed. What is in it is Strata's
// format: a directory that was written by franz-go's kfake cannot be read.
func DataDir(dir string) Opt { return option(func(cfg *config) { cfg.dir = dir }) }

// SyncWrites has what is acknowledged survive a loss of power, not only of the process. It goes
// with DataDir.
func SyncWrites() Opt { return option(func(cfg *config) { cfg.sync = true }) }

// BlackholeProduce has what is produced checked, acknowledged and thrown away: offsets advance,
// sequences are checked, transactions end, and there is nothing to consume. What stays of a batch
// is a header of 61 bytes.
func BlackholeProduce() Opt { return option(func(cfg *config) { cfg.blackhole = true }) }

// SyntheticFetch has fetches of partitions that exist answered from one batch of records, copies of
// it from the offset that is asked for on, whatever is in the log. The partitions seem to begin at
// 0 and to end at 1<<62. Producing and share groups are as without it.
func SyntheticFetch(b SyntheticBatch) Opt { return option(func(cfg *config) { cfg.synthetic = &b }) }
