package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(entry{name: "apache-kafka", broker: func() Broker { return &kafka{} }, pubsub: func() PubSub { return &brokerPS{b: &kafka{}} }, onDemand: true,
		note: "4.x in its own JVM, warmed up, no fsync; needs $KAFKA_REFEREE"})
	register(entry{name: "apache-kafka-rf3", broker: func() Broker { return &kafka{brokers: 3} }, pubsub: func() PubSub { return &brokerPS{b: &kafka{brokers: 3}} }, onDemand: true,
		note: "4.x, three brokers in a JVM each, one partition of three replicas, two of which have to be in sync, no fsync"})
	register(entry{name: "apache-kafka-fsync", broker: func() Broker { return &kafka{set: []string{"-s", "log.flush.interval.messages=1"}} }, onDemand: true,
		note: "as above, each append flushed before it is acknowledged"})
}

var warmUp bool

// kafka is Apache Kafka in its own process, started by the script that $KAFKA_REFEREE names. SCRIPT
// start DIR -p PORT prints "ready HOST:PORT", SCRIPT stop DIR stops it.
type kafka struct {
	dir     string
	set     []string
	brokers int // 0: one; with several, each has a replica of the topics
}

func (k *kafka) script() string { return os.Getenv("KAFKA_REFEREE") }

func (k *kafka) Start(dir string) ([]string, error) {
	k.dir = dir
	if k.script() == "" {
		return nil, errors.New("KAFKA_REFEREE names no script")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	cmd := exec.Command(k.script(), append([]string{"start", dir, "-p", strconv.Itoa(port), "-n", strconv.Itoa(max(1, k.brokers))}, k.set...)...)
	if cmd.Env = os.Environ(); k.brokers <= 1 {
		cmd.Env = append(cmd.Env, "HEAP=1g")
	}
	cmd.Stderr = os.Stderr
	cleanup = append(cleanup, k.Stop)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.script(), err)
	}
	addrs := strings.FieldsFunc(strings.TrimPrefix(strings.TrimSpace(string(out)), "ready "), func(r rune) bool { return r == ' ' || r == ',' })
	return addrs, k.prepare(addrs[0])
}

// prepare creates topic "bench" and lets the JVM compile its hot paths on another topic.
func (k *kafka) prepare(addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("warm"), kgo.ConsumeTopics("warm"), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(100_000), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"bench", "warm"} {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, int16(max(1, k.brokers))
		if k.brokers > 1 {
			two := "2"
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "min.insync.replicas", Value: &two}}
		}
		req.Topics = append(req.Topics, t)
	}
	if _, err := req.RequestWith(bg, cl); err != nil {
		return err
	}
	if !warmUp {
		return nil
	}
	n := 1_500_000
	if k.set != nil {
		n = 100_000
	}
	value := make([]byte, 100)
	for range n {
		cl.Produce(bg, &kgo.Record{Value: value}, nil)
	}
	if err := cl.Flush(bg); err != nil {
		return err
	}
	for got := 0; got < n; {
		got += cl.PollFetches(bg).NumRecords()
	}
	for range 2000 {
		if err := cl.ProduceSync(bg, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func (k *kafka) Stop() { exec.Command(k.script(), "stop", k.dir, "-9").Run() }
