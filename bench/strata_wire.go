package main

import (
	"net"

	"github.com/stratalog/strata"
	wire "github.com/stratalog/strata/kafka"
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
	register(entry{name: "strata-wire-fsync", broker: func() Broker { return &strataWire{flush: "1"} },
		note: "package kafka, files, fsync before every acknowledgement"})
}

const never = "9223372036854775807" // flush.messages: the operating system writes back

// strataWire is package kafka over a cluster.
type strataWire struct {
	memory  bool
	flush   string // flush.messages
	brokers int    // 0: one
	// replicas of the one partition that there is then; 0: one partition on each broker
	replicas int

	cluster *strata.Cluster
	server  *wire.Server
}

func (w *strataWire) Start(dir string) ([]string, error) {
	cfg := strata.Config{Dir: dir, Brokers: w.brokers}
	if w.memory {
		cfg.Dir = ""
	}
	if w.flush != "" { // of every topic, also those that clients create
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
	w.server = wire.NewServer(w.cluster, wire.Config{})
	serve, err := w.server.Announce(lns)
	if err != nil {
		return nil, err
	}
	go serve()
	return addrs, nil
}

func (w *strataWire) Stop() { w.server.Close(); w.cluster.Close() }
