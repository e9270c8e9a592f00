package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sizes of the workloads about many partitions.
const (
	manyTopics         = 1000  // W10: topics with one partition that are created and written to
	openPartitions     = 10000 // W11: partitions with data that are opened
	partitionsPerTopic = 1000
)

func init() {
	register(entry{name: "strata-open", many: true, note: "strata.Open of partitions that hold a few records; ms is that of Open, alloc B/rec the heap per partition"})
	workloads["W10"] = func(c *config, sel []entry) { // many topics, created and written to
		sel = family(sel, func(e entry) bool { return e.broker != nil && e.name != "limit-wire" })
		n := manyTopics
		if c.quick {
			n /= 10
		}
		for _, writers := range []int{1, n} {
			name := fmt.Sprintf("%d topics created and written, one by one", n)
			if writers > 1 {
				name = fmt.Sprintf("%d topics created and written, at once", n)
			}
			c.measure("W10", name, sel, func(e entry, dir string) Result {
				return spawn(Job{Op: "topics", Subject: e.name, Dir: dir, Size: 100, Batch: n, Writers: writers})
			})
		}
	}
	workloads["W11"] = func(c *config, sel []entry) { // open of many partitions with data
		sel = family(sel, func(e entry) bool { return e.many })
		n := openPartitions
		if c.quick {
			n /= 10
		}
		for i, stop := range []string{"clean", "killed"} {
			c.measure("W11", fmt.Sprintf("open %d partitions %s", n, stop), sel, func(e entry, dir string) Result {
				if w := spawn(Job{Op: "many-write", Subject: e.name, Dir: dir, Size: 100, Batch: n, Kill: i == 1}); w.Err != "" {
					return w
				}
				return spawn(Job{Op: "many-open", Subject: e.name, Dir: dir, Batch: n})
			})
		}
	}
	ops["topics"], ops["many-write"], ops["many-open"] = opTopics, opManyWrite, opManyOpen
}

// opTopics creates topics through a Kafka client and writes the first record of each, one after the
// other or all at once.
func opTopics(j Job) (Result, error) {
	b := lookup(j.Subject).broker()
	addrs, err := b.Start(j.Dir)
	if err != nil {
		return Result{}, err
	}
	defer b.Stop()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic("bench"), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return Result{}, err
	}
	defer cl.Close()
	value := payloads(j.Size, 1)()[0]
	if err := cl.ProduceSync(bg, &kgo.Record{Value: value}).FirstErr(); err != nil {
		return Result{}, err
	}
	m := startMeter()
	if j.Writers == 1 {
		for i := range j.Batch {
			ids, err := createTopics(cl, i, i+1)
			if err != nil {
				return Result{}, err
			}
			if err := produceTo(cl, topicName(i), ids[0], value); err != nil {
				return Result{}, err
			}
		}
	} else {
		if _, err := createTopics(cl, 0, j.Batch); err != nil {
			return Result{}, err
		}
		recs := make([]*kgo.Record, j.Batch)
		for i := range recs {
			recs[i] = &kgo.Record{Topic: topicName(i), Value: value}
		}
		if err := cl.ProduceSync(bg, recs...).FirstErr(); err != nil {
			return Result{}, err
		}
	}
	r := m.stop(int64(j.Batch), int64(j.Batch*j.Size))
	r.MS = float64(j.Batch) / r.RecsPerS * 1000
	return r, nil
}

func topicName(i int) string { return fmt.Sprintf("many-%05d", i) }

// createTopics creates the topics with numbers in [from, to) in one request.
func createTopics(cl *kgo.Client, from, to int) (ids [][16]byte, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	for i := from; i < to; i++ {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topicName(i), 1, 1
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(bg, cl)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return nil, fmt.Errorf("create %s: error code %d", t.Topic, t.ErrorCode)
		}
		ids = append(ids, t.TopicID)
	}
	return ids, nil
}

// produceTo writes one record without a metadata request, which the client sends at most every 10
// ms.
func produceTo(cl *kgo.Client, name string, id [16]byte, value []byte) error {
	var b record.Builder
	b.AppendKV(time.Now().UnixMilli(), nil, value, nil)
	batch, err := b.Build(record.None)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t.Topic, t.TopicID, t.Partitions = name, id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := cl.DiscoveredBrokers()[0].Request(bg, req)
	if err != nil {
		return err
	}
	if code := kresp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("produce to %s: error code %d", name, code)
	}
	return nil
}

// opManyWrite writes three records to each of many partitions. It closes the cluster unless the
// process will be killed.
func opManyWrite(j Job) (Result, error) {
	c, err := strata.Open(strata.Config{Dir: j.Dir})
	if err != nil {
		return Result{}, err
	}
	for first := 0; first < j.Batch; first += partitionsPerTopic {
		if err := c.CreateTopic(bg, topicName(first), topic.Config{Partitions: min(partitionsPerTopic, j.Batch-first)}); err != nil {
			return Result{}, err
		}
	}
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return Result{}, err
	}
	value := payloads(j.Size, 1)()[0]
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 3 {
		for i := range j.Batch {
			wg.Add(1)
			at := int32(i % partitionsPerTopic)
			p.SendAsync(bg, record.Record{Topic: topicName(i - int(at)), Value: value}.To(at), func(_ record.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
				wg.Done()
			})
		}
		if err := p.Flush(bg); err != nil {
			return Result{}, err
		}
		wg.Wait()
	}
	if err := failed.Load(); err != nil {
		return Result{}, *err
	}
	if j.Kill {
		return Result{Records: int64(j.Batch)}, nil
	}
	return Result{Records: int64(j.Batch)}, errors.Join(p.Close(), c.Close())
}

// opManyOpen measures the time of an open, and the heap afterwards.
func opManyOpen(j Job) (Result, error) {
	m := startMeter()
	c, err := strata.Open(strata.Config{Dir: j.Dir})
	if err != nil {
		return Result{}, err
	}
	r := m.stop(int64(j.Batch), 0)
	r.RecsPerS, r.MS = 0, float64(j.Batch)/r.RecsPerS*1000
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	r.AllocB = float64(int64(after.HeapAlloc)-int64(m.m.HeapAlloc)) / float64(j.Batch)
	offline := 0
	infos, err := c.Topics(bg)
	for _, t := range infos {
		for _, p := range t.Partitions {
			if p.Err != nil || p.HighWatermark != 3 {
				offline++
			}
		}
	}
	if offline > 0 {
		err = errors.Join(err, fmt.Errorf("%d partitions do not serve the records written to them", offline))
	}
	if err != nil || j.Kill {
		return r, err
	}
	return r, c.Close()
}
