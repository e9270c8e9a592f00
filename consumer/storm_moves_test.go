package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A moveStorm is a group over two topics and three brokers. Its members read in every way and
// change their subscriptions. Meanwhile the group is rewound, topics grow and are created again,
// and brokers die, stop and restart. Every record is seen, and again after each rewind to before
// it. In the end everything is committed.
type moveStorm struct {
	t       *testing.T
	b       *strata.Cluster
	rnd     *rand.Rand
	p       *producer.Producer
	members []*mover
	parts   map[string]int // partitions by topic
	lives   int            // number of topics created
	down    int32          // id of the stopped broker; 0: none

	mu      sync.Mutex // guards the fields below
	records map[string]map[string]*sentRecord
	rewinds int
}

// A sentRecord is a record of the present life of its topic.
type sentRecord struct {
	tp     record.TopicPartition
	offset int64
	due    int  // number of the last rewind to before it
	seen   int  // number of rewinds when it was last seen; -1: not seen
	passed bool // true: a rewind skipped it
}

type mover struct {
	c    *consumer.Consumer
	stop context.CancelFunc
	done chan struct{}
}

// ways are the ways of reading. Each reads until ctx ends or the consumer is closed, woken up or
// has an error.
var ways = []func(ctx context.Context, c *consumer.Consumer, take func(record.Record)) error{
	func(ctx context.Context, c *consumer.Consumer, take func(record.Record)) (last error) {
		for r, err := range c.Records(ctx) {
			if last = err; err == nil {
				take(r)
			}
		}
		return last
	},
	func(ctx context.Context, c *consumer.Consumer, take func(record.Record)) (last error) {
		for b, err := range c.Batches(ctx) {
			if last = err; err != nil {
				continue
			}
			for r := range b.All() {
				take(r)
			}
			commitUntilTaken(c, b.Offsets())
		}
		return last
	},
	func(ctx context.Context, c *consumer.Consumer, take func(record.Record)) error {
		return c.Run(ctx, func(_ context.Context, r record.Record) error { take(r); return nil }, consumer.RunConfig{Workers: 3, Order: consumer.ByKey})
	},
	func(ctx context.Context, c *consumer.Consumer, take func(record.Record)) error {
		return c.RunBatches(ctx, func(_ context.Context, rs []record.Record) error {
			for _, r := range rs {
				take(r)
			}
			return nil
		}, consumer.RunConfig{Workers: 2, BatchSize: 5})
	},
}

// commitUntilTaken commits asynchronously, and again if the coordinator was away for long, or there
// was no response.
func commitUntilTaken(c *consumer.Consumer, o record.Offsets) {
	c.CommitAsync(o, func(o record.Offsets, err error) {
		if again, _ := retriable.Of(err); again || errors.Is(err, group.ErrCoordinatorNotAvailable) || errors.Is(err, group.ErrNotCoordinator) {
			commitUntilTaken(c, o)
		}
	})
}

func (s *moveStorm) join(n int, assignors []assignor.Assignor) {
	way, works := s.rnd.IntN(len(ways)), time.Duration(s.rnd.IntN(400))*time.Millisecond
	cfg := consumer.Config{Group: "g", Topics: []string{"t", "u"}, Assignors: assignors, AllowUnknownTopics: true, MaxPollRecords: 1 + s.rnd.IntN(10)}
	if s.rnd.IntN(4) == 0 {
		cfg.InstanceID = fmt.Sprint("member ", n)
	}
	if way == 1 {
		cfg.Commit = consumer.CommitManual
	}
	m := &mover{c: open(s.t, s.b, cfg), done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	s.members = append(s.members, m)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			err := ways[way](ctx, m.c, func(r record.Record) {
				time.Sleep(works)
				s.see(r)
			})
			if errors.Is(err, consumer.ErrClosed) {
				return
			}
			// the consumer was woken up, or a partition has no leader
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

func (s *moveStorm) see(r record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent := s.records[r.Topic][string(r.Value)]; sent != nil {
		sent.seen = s.rewinds
	}
}

// leave closes a member, while it reads or after it has stopped.
func (s *moveStorm) leave(i int) {
	m := s.members[i]
	if s.rnd.IntN(2) == 0 {
		m.stop()
		<-m.done
	}
	if err := m.c.Close(); err != nil && s.down == 0 && !errors.Is(err, consumer.ErrRebalanced) {
		s.t.Errorf("close: %v", err)
	}
	m.stop()
	<-m.done
	s.members = append(s.members[:i], s.members[i+1:]...)
}

func (s *moveStorm) create(name string, partitions int) {
	require.NoError(s.t, s.b.CreateTopic(s.t.Context(), name, topic.Config{Partitions: partitions}))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[name], s.records[name] = partitions, map[string]*sentRecord{}
	s.lives++
}

func (s *moveStorm) send() {
	for range s.rnd.IntN(12) {
		name := []string{"t", "u"}[s.rnd.IntN(2)]
		tp := record.TopicPartition{Topic: name, Partition: s.rnd.Int32N(int32(s.parts[name]))}
		v := fmt.Sprint(s.lives, "-", len(s.records[name]))
		acks, err := s.p.Send(s.t.Context(), record.String(name, fmt.Sprint(s.rnd.IntN(4)), v).To(tp.Partition))
		require.NoError(s.t, err)
		s.mu.Lock()
		s.records[name][v] = &sentRecord{tp: tp, offset: acks[0].Offset, seen: -1}
		s.mu.Unlock()
	}
}

// rewind resets the group's offsets, mostly backwards; a time may be later than the committed
// offset.
func (s *moveStorm) rewind() {
	to := []group.ResetTarget{
		group.ShiftBy(-1 - int64(s.rnd.IntN(10))), group.ToEarliest(), group.ToTime(time.Now().Add(-time.Duration(s.rnd.IntN(200)) * time.Second)),
	}[s.rnd.IntN(3)]
	s.mu.Lock()
	s.rewinds++
	s.mu.Unlock()
	went, err := s.b.RewindGroup(s.t.Context(), "g", to)
	if err != nil {
		if s.down == 0 && !errors.Is(err, group.ErrGroupNotFound) {
			s.t.Errorf("rewind: %v", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, records := range s.records {
		for _, r := range records {
			if from, ok := went[r.tp]; ok && r.offset >= from {
				r.due, r.passed = s.rewinds, false
			} else if ok {
				r.passed = true
			}
		}
	}
}

// moveBroker kills or stops a broker, or restarts it.
func (s *moveStorm) moveBroker() {
	switch id := 1 + s.rnd.Int32N(3); {
	case s.down != 0:
		require.NoError(s.t, s.b.StartBroker(s.t.Context(), s.down))
		s.down = 0
	case s.rnd.IntN(2) == 0:
		require.NoError(s.t, s.b.KillBroker(id))
		s.down = id
	default:
		require.NoError(s.t, s.b.StopBroker(s.t.Context(), id))
		s.down = id
	}
}

func (s *moveStorm) step(n int, assignors []assignor.Assignor) {
	name := []string{"t", "u"}[s.rnd.IntN(2)]
	switch k := s.rnd.IntN(20); {
	case len(s.members) == 0 || len(s.members) < 4 && k < 3:
		s.join(n, assignors)
	case k < 5:
		s.leave(s.rnd.IntN(len(s.members)))
	case k == 5 && s.down == 0:
		require.NoError(s.t, s.b.DeleteTopic(s.t.Context(), name))
		time.Sleep(time.Duration(s.rnd.IntN(2)*s.rnd.IntN(5000)) * time.Millisecond)
		s.create(name, 1+s.rnd.IntN(5))
	case k == 6 && s.down == 0 && s.parts[name] < 8:
		s.parts[name]++
		require.NoError(s.t, s.b.AddPartitions(s.t.Context(), name, s.parts[name]))
	case k < 9:
		topics := [][]string{{"t"}, {"u"}, {"t", "u"}}[s.rnd.IntN(3)]
		require.NoError(s.t, s.members[s.rnd.IntN(len(s.members))].c.Subscribe(s.t.Context(), topics...))
	case k < 11:
		s.rewind()
	case k == 11:
		s.members[s.rnd.IntN(len(s.members))].c.Wakeup()
	case k == 12:
		s.members[s.rnd.IntN(len(s.members))].c.EnforceRebalance()
	case k < 15 || s.down != 0:
		s.moveBroker()
	}
	if s.down == 0 {
		s.send()
	}
	time.Sleep(time.Duration(s.rnd.IntN(5000)) * time.Millisecond)
}

// end lets the group come to rest and checks the records.
func (s *moveStorm) end() {
	if s.down != 0 {
		s.moveBroker()
	}
	for _, m := range s.members {
		require.NoError(s.t, m.c.Subscribe(s.t.Context(), "t", "u"))
	}
	time.Sleep(40 * time.Minute)
	synctest.Wait()
	for name, records := range s.records {
		for v, r := range records {
			if !r.passed && (r.seen < 0 || r.seen < r.due) {
				s.t.Errorf("record %s of %s, offset %d of partition %d: seen after rewind %d, rewound to by %d", v, name, r.offset, r.tp.Partition, r.seen, r.due)
			}
		}
	}
	info, err := s.b.Group(s.t.Context(), "g")
	require.NoError(s.t, err)
	require.Zero(s.t, info.Lag(), "%+v", info.Offsets)
	for len(s.members) > 0 {
		s.leave(0)
	}
	require.NoError(s.t, s.p.Close())
}

func TestStormOfRewindsSubscriptionsAndBrokersLosesNoRecord(t *testing.T) {
	seeds := uint64(12)
	if sample.Hurried() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, b.Close()) })
				s := &moveStorm{t: t, b: b, rnd: rand.New(rand.NewPCG(seed, 11)), parts: map[string]int{}, records: map[string]map[string]*sentRecord{}}
				s.create("t", 3)
				s.create("u", 2)
				s.p, err = producer.New(b, producer.Config{})
				require.NoError(t, err)
				assignors := [][]assignor.Assignor{nil, {assignor.Sticky()}, {assignor.Range()}, {assignor.CooperativeSticky(), assignor.Range()}}[seed%4]
				for n := range 100 {
					s.step(n, assignors)
				}
				if len(s.members) == 0 {
					s.join(100, assignors)
				}
				s.end()
			})
		})
	}
}
