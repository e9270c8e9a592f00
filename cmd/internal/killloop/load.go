package killloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A load runs the clients.
type load struct {
	addr      string
	cfg       Config
	stopAll   context.CancelFunc
	stopWrite context.CancelFunc
	writers   sync.WaitGroup
	readers   sync.WaitGroup
	clients   []*kgo.Client
	admin     *kadm.Client

	acked   []atomic.Int64 // by producer: number of records acknowledged, in order
	failed  atomic.Int64
	tail    *checker
	commits atomic.Int64
	revoked atomic.Int64

	mu    sync.Mutex      // guards the fields below
	marks map[int32]int64 // highest acknowledged committed offset, by partition
	err   error
}

const groupName = "committers"

func newLoad(ctx context.Context, cfg Config, addr string) (*load, error) {
	l := &load{addr: addr, cfg: cfg, acked: make([]atomic.Int64, cfg.Producers), tail: newChecker(), marks: map[int32]int64{}}
	admin, err := l.client()
	if err != nil {
		return nil, err
	}
	l.admin = kadm.NewClient(admin)
	run, stop := context.WithCancel(ctx)
	write, stopWrite := context.WithCancel(run)
	l.stopAll, l.stopWrite = stop, stopWrite
	if err := l.start(run, write); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// start starts the clients. Producers end with the context write, readers with run.
func (l *load) start(run, write context.Context) error {
	cfg := l.cfg
	if _, err := l.admin.CreateTopic(run, cfg.Partitions, 1, nil, topicName); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	for i := range cfg.Producers {
		c, err := l.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(500), kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		l.writers.Go(func() { l.produce(write, c, i) })
	}
	tail, err := l.client(kgo.ConsumeTopics(topicName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	l.readers.Go(func() { l.follow(run, tail, l.tail) })
	for range 2 {
		lost := func(_ context.Context, _ *kgo.Client, had map[string][]int32) {
			if len(had) > 0 {
				l.revoked.Add(1)
			}
		}
		c, err := l.client(kgo.ConsumeTopics(topicName), kgo.ConsumerGroup(groupName), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.OnPartitionsLost(lost))
		if err != nil {
			return err
		}
		l.readers.Go(func() { l.commit(run, c) })
	}
	return nil
}

func (l *load) client(opts ...kgo.Opt) (*kgo.Client, error) {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(l.addr), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.RequestRetries(1 << 20), kgo.RetryTimeout(patience), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err == nil {
		l.clients = append(l.clients, c)
	}
	return c, err
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, err)
}

// ahead bounds the number of records that a producer may be ahead of the tailing reader. Without it
// a slow machine spends its time on catching up.
const ahead = 5000

// produce writes records until ctx ends, and waits for the acknowledgements of all.
func (l *load) produce(ctx context.Context, c *kgo.Client, p int) {
	for n := int64(0); ctx.Err() == nil; n++ {
		for n%100 == 0 && n-l.tail.progress(p + 1)[p] > ahead && ctx.Err() == nil {
			_ = pause(ctx, time.Millisecond)
		}
		r := &kgo.Record{Topic: topicName, Partition: int32(p) % l.cfg.Partitions, Value: value(p, n)}
		c.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) {
			if err != nil {
				l.failed.Add(1)
				l.fail(fmt.Errorf("producer %d, record %d: %w", p, n, err))
				return
			}
			l.acked[p].Store(n + 1) // franz-go calls promises in order
		})
	}
	if err := c.Flush(context.WithoutCancel(ctx)); err != nil {
		l.fail(err)
	}
}

// follow reads until ctx ends.
func (l *load) follow(ctx context.Context, c *kgo.Client, to *checker) {
	for ctx.Err() == nil {
		fs := c.PollFetches(ctx)
		for it := fs.RecordIter(); !it.Done(); {
			if err := to.take(it.Next().Value); err != nil {
				l.fail(err)
			}
		}
	}
}

// commit is a member of the group: it commits the offsets of the records that it polls.
func (l *load) commit(ctx context.Context, c *kgo.Client) {
	for ctx.Err() == nil {
		fs := c.PollFetches(ctx)
		ends := map[int32]int64{}
		fs.EachRecord(func(r *kgo.Record) { ends[r.Partition] = r.Offset + 1 })
		if len(ends) > 0 && c.CommitUncommittedOffsets(ctx) == nil {
			l.commits.Add(1)
			l.mu.Lock()
			for p, end := range ends {
				l.marks[p] = max(l.marks[p], end)
			}
			l.mu.Unlock()
		}
		c.AllowRebalance()
	}
}

// committed returns the commits acknowledged so far.
func (l *load) committed() map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.marks)
}

// commitsLost counts the partitions whose committed offset is below an earlier acknowledged one.
func (l *load) commitsLost(ctx context.Context, want map[int32]int64) (lost int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	have, err := l.admin.FetchOffsets(ctx, groupName)
	if err != nil {
		return 0, fmt.Errorf("fetch offsets: %w", err)
	}
	for p, offset := range want {
		if o, ok := have.Lookup(topicName, p); !ok || o.At < offset {
			lost++
		}
	}
	return lost, nil
}

// gotOn waits until the broker has acknowledged another record of every producer and the tailing
// reader has read these records.
func (l *load) gotOn(ctx context.Context) error {
	acked := l.ackedNow()
	for i := range acked {
		acked[i]++
	}
	err := l.await(ctx, "the clients to get on", func() bool {
		for i := range acked {
			if l.acked[i].Load() < acked[i] {
				return false
			}
		}
		return l.tail.reached(acked)
	})
	if err != nil {
		err = fmt.Errorf("%w (acknowledged %d, wanted %d, tailed %d)", err, l.ackedNow(), acked, l.tail.progress(len(acked)))
	}
	return err
}

func (l *load) ackedNow() []int64 {
	acked := make([]int64, len(l.acked))
	for i := range l.acked {
		acked[i] = l.acked[i].Load()
	}
	return acked
}

// await polls until done returns true. It fails after patience.
func (l *load) await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	for !done() {
		if err := pause(ctx, time.Millisecond); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			return errors.Join(context.Cause(ctx), l.err)
		}
	}
	return nil
}

// settle stops the producers, waits until the tailing reader has all records, reads everything
// again with another reader and fills in the report.
func (l *load) settle(ctx context.Context, rep *Report) error {
	l.stopWrite()
	l.writers.Wait()
	acked := l.ackedNow()
	tailed := l.await(ctx, "the tailing reader", func() bool { return l.tail.reached(acked) })
	l.tail.add(rep, acked)
	again := newChecker()
	c, err := l.client(kgo.ConsumeTopics(topicName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	read, stop := context.WithCancel(ctx)
	defer stop()
	l.readers.Go(func() { l.follow(read, c, again) })
	reread := l.await(ctx, "reading everything again", func() bool { return again.reached(acked) })
	stop()
	l.stopAll()
	l.readers.Wait()
	again.add(rep, acked)
	for _, n := range acked {
		rep.Acked += n
	}
	rep.Read, rep.Tailed = again.seen, l.tail.seen
	rep.Commits, rep.Failed, rep.Revoked = l.commits.Load(), l.failed.Load(), int(l.revoked.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(tailed, reread, l.err)
}

// stop stops and closes all clients.
func (l *load) stop() {
	l.stopAll()
	l.close() // fails the buffered records, which ends the writers
	l.writers.Wait()
	l.readers.Wait()
}

func (l *load) close() {
	for _, c := range l.clients {
		c.CloseAllowingRebalance()
	}
}
