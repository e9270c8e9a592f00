package main

import (
	"crypto/tls"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/throwaway"
	wire "github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func init() {
	memory := func() *strataWire { return &strataWire{memory: true} }
	files := func() *strataWire { return &strataWire{flush: never} }
	three := func() *strataWire { return &strataWire{flush: never, brokers: 3} }
	register(entry{name: "strata-memory", broker: func() Broker { return memory() }, pubsub: func() PubSub { return &brokerPS{b: memory()} },
		note: "package kafka over a cluster in memory"})
	register(entry{name: "strata-wire", broker: func() Broker { return files() }, pubsub: func() PubSub { return &brokerPS{b: files()} },
		note: "package kafka, files, no fsync"})
	register(entry{name: "strata-wire-3brokers", broker: func() Broker { return three() }, pubsub: func() PubSub { return &brokerPS{b: three()} },
		note: "package kafka, files, no fsync, three brokers with one partition each"})
	register(entry{name: "strata-wire-rf3", broker: func() Broker { return &strataWire{flush: never, brokers: 3, replicas: 3} },
		pubsub: func() PubSub { return &brokerPS{b: &strataWire{flush: never, brokers: 3, replicas: 3}} },
		note:   "package kafka, files, no fsync, three brokers with one partition of three replicas, two of which have to be in sync"})
	register(entry{name: "strata-wire-tls", broker: func() Broker { return &strataWire{flush: never, tls: true} }, onDemand: true, note: "strata-wire with TLS 1.3"})
	register(entry{name: "strata-wire-acl", broker: func() Broker { return &strataWire{flush: never, acls: 1000} }, onDemand: true,
		note: "strata-wire with an authorizer that knows of 1,000 entries"})
	register(entry{name: "strata-wire-quotas", broker: func() Broker { return &strataWire{flush: never, quotas: true} }, onDemand: true,
		note: "strata-wire with quotas of bytes and of requests that are never reached"})
	register(entry{name: "strata-wire-fsync", broker: func() Broker { return &strataWire{flush: "1"} },
		note: "package kafka, files, fsync before every acknowledgement"})
}

const never = "9223372036854775807" // flush.messages: no flush, the operating system writes back

// strataWire is package kafka over a cluster.
type strataWire struct {
	memory  bool
	flush   string // flush.messages
	brokers int    // 0: one
	// replicas of the topic's only partition; 0: one partition on each broker
	replicas int

	tls    bool
	acls   int // entries; 0: no authorizer
	quotas bool

	authority *throwaway.Authority
	cluster   *strata.Cluster
	server    *wire.Server
}

func (w *strataWire) Start(dir string) ([]string, error) {
	cfg := strata.Config{Dir: dir, Brokers: w.brokers}
	if w.memory {
		cfg.Dir = ""
	}
	if w.flush != "" { // for every topic, including topics that clients create
		cfg.Defaults.Properties = map[string]string{"flush.messages": w.flush}
	}
	var err error
	if w.cluster, err = strata.Open(cfg); err != nil {
		return nil, err
	}
	if err := w.cluster.EnsureTopic(bg, "bench", topic.Config{Partitions: shape{brokers: w.brokers, replicas: w.replicas}.partitions(), ReplicationFactor: w.replicas, MinInSyncReplicas: min(2, w.replicas)}); err != nil {
		return nil, err
	}
	lns, addrs := map[int32]net.Listener{}, []string(nil)
	for _, broker := range w.cluster.Backend().Brokers() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		lns[broker], addrs = ln, append(addrs, ln.Addr().String())
	}
	var served wire.Config
	if w.tls {
		if w.authority, err = throwaway.New(); err != nil {
			return nil, err
		}
		certificate, err := w.authority.Certificate(throwaway.Request{Hosts: []string{"127.0.0.1"}})
		if err != nil {
			return nil, err
		}
		served.Security.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	if w.acls > 0 {
		served.Authorization.Enabled = true
		if err := w.cluster.CreateACLs(bg, entries(w.acls)...); err != nil {
			return nil, err
		}
	}
	if w.quotas {
		everyClient := replication.QuotaEntity{ClientID: replication.QuotaName{Default: true}}
		_, err := w.cluster.AlterClientQuotas(bg, replication.QuotaChange{Entity: everyClient, Changes: []replication.QuotaValue{
			{Key: replication.ProducerByteRate, Value: 1e12}, {Key: replication.ConsumerByteRate, Value: 1e12}, {Key: replication.RequestPercentage, Value: 1e6},
		}})
		if err != nil {
			return nil, err
		}
	}
	w.server = wire.NewServer(w.cluster, served)
	serve, err := w.server.Announce(lns)
	if err != nil {
		return nil, err
	}
	go serve()
	return addrs, nil
}

// entries returns n access control entries. Two of them allow all principals to read and write the
// topic.
func entries(n int) []acl.Entry {
	var es []acl.Entry
	allow := func(name, principal string, o acl.Operation) {
		es = append(es, acl.Entry{ResourceType: acl.Topic, ResourceName: name, PatternType: acl.Literal, Principal: principal, Host: "*", Operation: o, Permission: acl.Allow})
	}
	allow("bench", "User:*", acl.Read)
	allow("bench", "User:*", acl.Write)
	for len(es) < n {
		allow(fmt.Sprint("other-", len(es)), fmt.Sprint("User:", len(es)), acl.Read)
	}
	return es
}

func (w *strataWire) options() []kgo.Opt {
	if !w.tls {
		return nil
	}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: w.authority.Pool(), ServerName: "127.0.0.1"})}
}

func (w *strataWire) Stop() { w.server.Close(); w.cluster.Close() }
