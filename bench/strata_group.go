package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	groupPartitions = 6
	groupMembers    = 2
)

func init() {
	register(entry{name: "strata-group", group: strataGroup, note: "SendAllAsync of 1000 records of 100 B into 6 partitions (sticky) while 2 members poll up to 10,000 records, commit each batch (CommitAsync) and release it; a record counts when its commit is durable; SyncNever"})
	register(entry{name: "strata-group-wait", group: strataGroup, note: "the same with CommitOffsets, which waits for the disk with every batch"})
	register(entry{name: "strata-group-each", group: strataGroup, note: "the same with SendAsync for each record"})
	register(entry{name: "strata-group-3brokers", group: strataGroup, note: "strata-group with three brokers that lead two partitions each"})
	register(entry{name: "limit-kafkav2-half", group: kafkaV2Half, note: "the slower of limit-kafkav2's append and replay, batches of 1000"})
	register(entry{name: "strata-tail", tail: strataTail, note: "paced SendAsync, SyncNever (a sync of the disk would be most of the latency), 1 partition, free consumers at its end"})
	workloads["W8"] = func(c *config, sel []entry) { // producer -> partitions -> group
		c.measure("W8", "group 6p 2m 100B", family(sel, func(e entry) bool { return e.group != nil }), func(e entry, dir string) Result {
			return spawn(Job{Op: "group", Subject: e.name, Dir: dir, Size: 100, Batch: 1000, Bytes: c.bytes, MaxTime: c.maxTime})
		})
	}
	workloads["W9"] = func(c *config, sel []entry) { // one writer, many readers at the end
		for _, readers := range []int{0, 100} {
			c.measure("W9", fmt.Sprintf("10000/s 100B, %d readers", readers), family(sel, func(e entry) bool { return e.tail != nil }), func(e entry, dir string) Result {
				return spawn(Job{Op: "tail", Subject: e.name, Dir: dir, Size: 100, Writers: readers, MaxTime: c.maxTime})
			})
		}
	}
	ops["group"] = func(j Job) (Result, error) { return lookup(j.Subject).group(j) }
	ops["tail"] = func(j Job) (Result, error) { return lookup(j.Subject).tail(j) }
}

func family(sel []entry, in func(entry) bool) (out []entry) {
	for _, e := range sel {
		if in(e) {
			out = append(out, e)
		}
	}
	return out
}

// strataGroup measures the time from the first record sent to the last record committed.
func strataGroup(j Job) (Result, error) {
	brokers := 1
	if j.Subject == "strata-group-3brokers" {
		brokers = 3
	}
	c, err := strata.Open(strata.Config{Dir: j.Dir, Brokers: brokers})
	if err != nil {
		return Result{}, err
	}
	cfg := topic.Config{Partitions: groupPartitions, Properties: map[string]string{"flush.messages": "9223372036854775807"}}
	if err := c.CreateTopic(bg, benchTopic, cfg); err != nil {
		return Result{}, err
	}
	p, err := producer.New(c, producer.Config{Partitioner: topic.Sticky()})
	if err != nil {
		return Result{}, err
	}
	var members []*consumer.Consumer
	for range groupMembers {
		m, err := consumer.New(c, consumer.Config{Group: "bench", Topics: []string{benchTopic}, Commit: consumer.CommitManual, MaxPollRecords: 10_000})
		if err != nil {
			return Result{}, err
		}
		members = append(members, m)
	}
	g := &groupRun{}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() { g.consume(ctx, m, j.Subject == "strata-group-wait") })
	}
	if err := awaitAssignment(ctx, members); err != nil {
		return Result{}, err
	}
	// not measured, as the limits do not measure the open of their files
	if err := g.begin(ctx, p); err != nil {
		return Result{}, err
	}
	noise()
	m := startMeter()
	n, err := g.produce(p, j)
	if err != nil {
		return Result{}, err
	}
	if err := g.await(ctx, groupPartitions+n); err != nil {
		return Result{}, err
	}
	r := m.stop(n, n*int64(j.Size))
	cancel()
	wg.Wait()
	for _, m := range members {
		if err := m.Close(); err != nil {
			return Result{}, err
		}
	}
	if err := p.Close(); err != nil {
		return Result{}, err
	}
	if err := g.err(); err != nil {
		return Result{}, err
	}
	return r, c.Close()
}

func awaitAssignment(ctx context.Context, members []*consumer.Consumer) error {
	for {
		even := true
		for _, m := range members {
			even = even && len(m.Assignment()) == groupPartitions/groupMembers
		}
		if even {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("partitions are not assigned: %w", ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

type groupRun struct {
	got    atomic.Int64 // number of records committed
	want   atomic.Int64 // number at which ready is closed
	ready  atomic.Pointer[chan struct{}]
	failed atomic.Pointer[error] // the first error
}

func (g *groupRun) fail(err error) { g.failed.CompareAndSwap(nil, &err) }

func (g *groupRun) err() error {
	if p := g.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// await waits until that many records are committed.
func (g *groupRun) await(ctx context.Context, records int64) error {
	ready := make(chan struct{})
	g.want.Store(records)
	g.ready.Store(&ready)
	g.check()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d records after a minute", g.got.Load(), records)
	}
}

func (g *groupRun) check() {
	if g.got.Load() < g.want.Load() {
		return
	}
	if ready := g.ready.Swap(nil); ready != nil {
		close(*ready)
	}
}

// begin writes the first record of each partition and waits until the group has committed it.
func (g *groupRun) begin(ctx context.Context, p *producer.Producer) error {
	for i := range int32(groupPartitions) {
		if _, err := p.Send(ctx, record.String(benchTopic, "", "first").To(i)); err != nil {
			return err
		}
	}
	return g.await(ctx, groupPartitions)
}

func (g *groupRun) produce(p *producer.Producer, j Job) (n int64, err error) {
	next := payloads(j.Size, j.Batch)
	each, rs := j.Subject == "strata-group-each", make([]record.Record, j.Batch)
	for i := range rs {
		rs[i].Topic = benchTopic
	}
	for deadline := time.Now().Add(j.MaxTime); n*int64(j.Size) < j.Bytes && time.Now().Before(deadline); {
		if values := next(); each {
			for _, v := range values {
				p.SendAsync(bg, record.Record{Topic: benchTopic, Value: v}, nil)
			}
		} else {
			for i, v := range values {
				rs[i].Value = v
			}
			p.SendAllAsync(bg, rs, nil)
		}
		n += int64(j.Batch)
	}
	if err := p.Flush(bg); err != nil {
		return n, err
	}
	if s := p.Stats(); s.Acknowledged != groupPartitions+n {
		return n, fmt.Errorf("%d of %d records acknowledged, %d refused", s.Acknowledged-groupPartitions, n, s.Refused)
	}
	return n, g.err()
}

// consume reads and commits batches. With blocking it waits for each commit.
func (g *groupRun) consume(ctx context.Context, c *consumer.Consumer, blocking bool) {
	var sum byte
	for b, err := range c.Batches(ctx) {
		if err != nil {
			g.fail(err)
			return
		}
		for _, rs := range b.Partitions() {
			for i := range rs {
				v := rs[i].Value
				sum ^= v[0] ^ v[len(v)-1]
			}
		}
		n := int64(b.Len())
		committed := func(_ record.Offsets, err error) {
			if err != nil {
				g.fail(err)
				return
			}
			g.got.Add(n)
			g.check()
		}
		if o := b.Offsets(); blocking {
			committed(o, c.CommitOffsets(ctx, o))
		} else {
			c.CommitAsync(o, committed)
		}
		b.Release()
	}
}

// kafkaV2Half runs limit-kafkav2's append and replay and returns the slower result.
func kafkaV2Half(j Job) (Result, error) {
	v2 := Job{Subject: "limit-kafkav2", Dir: filepath.Join(j.Dir, "v2"), Size: j.Size, Batch: j.Batch, Writers: 1, Bytes: j.Bytes, MaxTime: j.MaxTime}
	if err := os.MkdirAll(v2.Dir, 0o755); err != nil {
		return Result{}, err
	}
	a, err := opAppend(v2)
	if err != nil {
		return Result{}, err
	}
	v2.Expect = a.Records
	r, err := opRead(v2)
	if err != nil {
		return Result{}, err
	}
	if a.RecsPerS < r.RecsPerS {
		return a, nil
	}
	return r, nil
}
