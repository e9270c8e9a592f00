package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	stormDrain = 10 * time.Second
	stormPoll  = 30 * time.Second
)

// A storm has members that run handlers which hang, panic and fail, while every call that is
// possible is made. It checks at every call and every commit:
//   - a call begins only when the records before it in its order are done or dead-lettered;
//   - no two calls of an order run at a time, except one whose context has ended;
//   - every committed record is done or dead-lettered;
//   - OnRevoked does not run beside a call of its partitions whose context has not ended;
//   - Run returns within DrainTimeout of its end.
type storm struct {
	t     *testing.T
	b     *strata.Cluster
	seed  uint64
	order consumer.RunOrder
	retry *consumer.RetryTopics
	calm  bool // written between two synctest.Waits only

	mu       sync.Mutex // guards the fields below
	rnd      *rand.Rand
	sent     map[int32][]string // keys by partition and offset
	finished map[int32]map[int64]bool
	running  map[*stormCall]bool
	members  []*stormMember
	joined   int
	calls    int
}

type stormCall struct {
	member    int
	ctx       context.Context
	partition int32
	key       string
}

type stormMember struct {
	id     int
	c      *consumer.Consumer
	cancel context.CancelFunc
	ended  chan struct{}
	// when the end of the present Run was requested; zero if it was not. Guarded by storm.mu
	endAt time.Time
}

func TestRunHoldsItsPromisesWhateverHandlersAndCallersDo(t *testing.T) {
	seeds := uint64(30)
	if sample.Hurried() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
				s := &storm{
					t: t, b: b, seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), order: consumer.RunOrder(seed % 2),
					sent: map[int32][]string{}, finished: map[int32]map[int64]bool{}, running: map[*stormCall]bool{},
				}
				s.run(seed%5 == 4)
			})
		})
	}
}

func (s *storm) run(retryTopic bool) {
	p, err := producer.New(s.b, producer.Config{})
	require.NoError(s.t, err)
	if retryTopic {
		require.NoError(s.t, s.b.CreateTopic(s.t.Context(), "later", topic.Config{Partitions: 2}))
		s.retry = &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{Topic: "later", Delay: 5 * time.Second}, {Topic: "later", Delay: time.Minute}}}
	}
	for range 80 {
		s.step(p)
		s.checkCommitted()
	}
	s.mu.Lock()
	s.calm = true
	members := slices.Clone(s.members)
	s.mu.Unlock()
	for _, m := range members {
		m.c.Resume()
	}
	if len(members) == 0 {
		s.join()
	}
	time.Sleep(20 * time.Minute)
	synctest.Wait()
	s.checkCommitted()
	s.checkAllDone()
	for len(s.members) > 0 {
		s.leave(0)
	}
	require.NoError(s.t, p.Close())
}

// intN returns a random number under mu, since handlers use rnd too.
func (s *storm) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

// step performs one action, and lets some time pass.
func (s *storm) step(p *producer.Producer) {
	n := len(s.members)
	switch what := s.intN(10); {
	case n == 0 || n < 4 && what == 0:
		s.join()
	case what == 1:
		s.leave(s.intN(n))
	case what == 2:
		s.end(s.members[s.intN(n)], func(m *stormMember) { m.cancel() })
	case what == 3:
		s.end(s.members[s.intN(n)], func(m *stormMember) { m.c.Wakeup() })
	case what == 4:
		s.members[s.intN(n)].c.EnforceRebalance()
	case what == 5:
		m := s.members[s.intN(n)]
		for _, tp := range m.c.Assignment() {
			if tp.Topic == "t" && s.intN(2) == 0 {
				// the partition may have been revoked
				_ = m.c.Seek(tp, max(0, s.committedOf(tp)-int64(s.intN(3))))
			}
		}
	case what == 6:
		s.members[s.intN(n)].c.Pause()
	case what == 7:
		s.members[s.intN(n)].c.Resume()
	default:
		s.send(p)
	}
	time.Sleep(time.Duration(s.intN(8000)) * time.Millisecond)
}

func (s *storm) send(p *producer.Producer) {
	for range 1 + s.intN(20) {
		partition, key := int32(s.intN(4)), fmt.Sprint(s.intN(4))
		s.mu.Lock()
		s.sent[partition] = append(s.sent[partition], key)
		s.mu.Unlock()
		_, err := p.Send(s.t.Context(), record.String("t", key, "v").To(partition))
		require.NoError(s.t, err)
	}
}

func (s *storm) committedOf(tp record.TopicPartition) int64 {
	got, err := s.b.FetchOffsets(s.t.Context(), "g", []record.TopicPartition{tp})
	require.NoError(s.t, err)
	return max(0, got[tp].Offset)
}

// join adds a member that runs handlers until it is closed, in one Run after the other.
func (s *storm) join() {
	topics := []string{"t"}
	if s.retry != nil {
		topics = append(topics, "later")
	}
	assignors := []assignor.Assignor{assignor.CooperativeSticky()}
	if s.seed%3 == 0 {
		assignors = []assignor.Assignor{assignor.Range()}
	}
	c := open(s.t, s.b, consumer.Config{
		Group: "g", Topics: topics, Assignors: assignors, MaxPollInterval: stormPoll, RebalanceTimeout: time.Minute,
		OnRevoked: s.revoked(s.joined),
	})
	m := &stormMember{id: s.joined, c: c, ended: make(chan struct{})}
	s.joined++
	s.mu.Lock()
	s.members = append(s.members, m)
	s.mu.Unlock()
	started := make(chan struct{})
	go func() {
		defer close(m.ended)
		for s.runOnce(m, started) {
			started = nil
		}
	}()
	<-started
}

// runOnce runs one Run. It returns false if the consumer is closed.
func (s *storm) runOnce(m *stormMember, started chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	m.cancel, m.endAt = cancel, time.Time{}
	cfg := consumer.RunConfig{
		Workers: 1 + s.rnd.IntN(4), Order: s.order, MaxInFlight: 1 + s.rnd.IntN(50), BatchSize: 1 + s.rnd.IntN(10),
		Retries: s.rnd.IntN(3), MinBackoff: time.Second, DrainTimeout: stormDrain, RetryTopics: s.retry,
		DeadLetter: func(_ context.Context, r record.Record, _ error) error {
			if s.chance(4) {
				time.Sleep(3 * time.Second)
			}
			s.finish(r)
			return nil
		},
	}
	if s.rnd.IntN(4) == 0 {
		cfg.AttemptTimeout = 2 * time.Second
	}
	batches := s.seed%3 == 1
	s.mu.Unlock()
	if started != nil {
		close(started)
	}
	var err error
	if batches {
		err = m.c.RunBatches(ctx, s.handleBatch(m.id), cfg)
	} else {
		err = m.c.Run(ctx, s.handle(m.id), cfg)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.endAt.IsZero() && time.Since(m.endAt) > stormDrain {
		s.t.Errorf("Run returned %s after its end", time.Since(m.endAt))
	}
	switch {
	case errors.Is(err, consumer.ErrClosed):
		return false
	case err != nil && !errors.Is(err, consumer.ErrDrainTimeout):
		s.t.Errorf("run: %v", err)
		return false
	}
	return true
}

// end requests the end of m's Run.
func (s *storm) end(m *stormMember, how func(*stormMember)) {
	s.mu.Lock()
	if m.endAt.IsZero() {
		m.endAt = time.Now()
	}
	s.mu.Unlock()
	how(m)
}

// leave closes a member.
func (s *storm) leave(i int) {
	m := s.members[i]
	s.mu.Lock()
	s.members = slices.Delete(s.members, i, i+1)
	s.mu.Unlock()
	closed := make(chan struct{})
	s.end(m, func(m *stormMember) {
		go func() {
			defer close(closed)
			_ = m.c.Close() // a member that just lost its session cannot commit
		}()
	})
	if s.intN(2) == 0 || s.calm {
		<-closed
		<-m.ended
	}
}

func (s *storm) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.rnd.IntN(n) == 0
}
