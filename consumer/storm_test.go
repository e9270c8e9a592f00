package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// A groupStorm is a group whose members join, leave, freeze, are slow, seek, pause, are woken up
// and are closed from other goroutines. Its topic grows and is deleted and created again, while
// records are produced.
type groupStorm struct {
	t   *testing.T
	b   *strata.Cluster
	rnd *rand.Rand
	// true: members seek back. Otherwise commits only increase, and no record is skipped or
	// repeated in a tenure
	seeks  bool
	life   int       // of the topic
	begun  time.Time // of this life
	parts  int
	sent   map[string]bool // values of this life
	stable map[record.TopicPartition]int64

	mu   sync.Mutex // guards the fields below
	seen map[string]int
	// member that was handed a record, by partition, life and generation
	owner map[string]string
}

// A stormy member checks the records that it reads.
type stormy struct {
	*consumer.Consumer
	s      *groupStorm
	name   string
	link   *cutOff
	stop   context.CancelFunc
	done   chan struct{}
	inBody atomic.Int32
	naps   atomic.Int64 // duration of the next body, in nanoseconds

	mu   sync.Mutex // guards next
	next map[record.TopicPartition]int64
}

func (s *groupStorm) join(name string, way string, assignors []assignor.Assignor) *stormy {
	m := &stormy{s: s, name: name, link: &cutOff{Backend: s.b}, done: make(chan struct{}), next: map[record.TopicPartition]int64{}}
	cfg := consumer.Config{
		Group: "g", Topics: []string{"t"}, Assignors: assignors, MaxPollRecords: 1 + s.rnd.IntN(6), AllowUnknownTopics: true, MaxWait: time.Hour,
		OnAssigned: m.callback(func(tps []record.TopicPartition) {
			for _, tp := range tps {
				m.forget(tp)
			}
		}),
		OnRevoked: m.callback(func([]record.TopicPartition) {}),
		OnLost:    m.callback(func([]record.TopicPartition) {}),
	}
	if s.rnd.IntN(4) == 0 {
		cfg.InstanceID = name
	}
	m.Consumer = open(s.t, m.link, cfg)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.done)
		for ctx.Err() == nil && !m.closed(ctx) { // a wake-up ends a loop: the next one begins
			readBy(s.t, way, ctx, m.Consumer, m.take)
		}
	}()
	return m
}

// closed reports whether the consumer is closed. It calls Wakeup first, so that Poll returns no
// records.
func (m *stormy) closed(ctx context.Context) bool {
	m.Wakeup()
	_, err := m.Poll(ctx)
	return !errors.Is(err, consumer.ErrWakeup)
}

// callback checks that callbacks run beside no body.
func (m *stormy) callback(fn func([]record.TopicPartition)) func(context.Context, []record.TopicPartition) {
	return func(_ context.Context, tps []record.TopicPartition) {
		if m.inBody.Load() != 0 {
			m.s.t.Errorf("%s: callback beside a body", m.name)
		}
		fn(tps)
	}
}

func (m *stormy) forget(tp record.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.next, tp)
}

// take is the loop body.
func (m *stormy) take(r record.Record) {
	m.inBody.Add(1)
	defer m.inBody.Add(-1)
	s, tp := m.s, record.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	value := string(r.Value)
	life, _, _ := strings.Cut(value, "-")
	// A group that is empty when its protocol changes counts its generations from the start.
	if g := m.Metadata().Generation; g >= 0 && !ofBothProtocols(s.t) {
		key := fmt.Sprintf("%d/%s/%d", r.Partition, life, g)
		s.mu.Lock()
		if other, ok := s.owner[key]; ok && other != m.name {
			s.t.Errorf("partition %d has two owners in generation %d: %s and %s", r.Partition, g, other, m.name)
		}
		s.owner[key] = m.name
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.seen[value]++
	s.mu.Unlock()
	m.mu.Lock()
	if next, ok := m.next[tp]; ok && !s.seeks && r.Offset != next {
		s.t.Errorf("%s: offset %d of partition %d after %d", m.name, r.Offset, r.Partition, next-1)
	}
	m.next[tp] = r.Offset + 1
	m.mu.Unlock()
	if d := m.naps.Swap(0); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// leave closes the member, while its loop runs if fromOutside is set, otherwise after the loop.
func (m *stormy) leave(fromOutside bool) {
	if !fromOutside {
		m.stop()
		<-m.done
	}
	// Over a network a member may close before it notices that its topic was created again.
	unnoticed := wired.On(m.s.t) && time.Since(m.s.begun) <= remote.DefaultMetadataMaxAge+time.Second
	err := m.Close()
	switch {
	case err == nil, m.link.off.Load(), errors.Is(err, group.ErrFencedInstance):
	case errors.Is(err, context.DeadlineExceeded): // a long body
	case unnoticed && errors.Is(err, group.ErrUnknownTopicOrPartition):
	default:
		m.s.t.Errorf("%s: close: %v", m.name, err)
	}
	m.stop()
	<-m.done
}

func (s *groupStorm) send(p *producer.Producer) {
	for range s.rnd.IntN(15) {
		v := fmt.Sprintf("%d-%d", s.life, len(s.sent))
		if _, err := p.Send(s.t.Context(), record.String("t", "", v).To(s.rnd.Int32N(int32(s.parts)))); err != nil {
			s.t.Fatal(err)
		}
		s.sent[v] = true
	}
}

// commitsGoForward checks that the group's offsets have not decreased since the last call.
func (s *groupStorm) commitsGoForward() {
	now := committed(s.t, s.b, "g")
	for tp, offset := range now {
		if before := s.stable[tp]; offset < before && !s.seeks {
			s.t.Errorf("commit of %v went back from %d to %d", tp, before, offset)
		}
	}
	s.stable = now
}

func (s *groupStorm) recreate() {
	require.NoError(s.t, s.b.DeleteTopic(s.t.Context(), "t"))
	if s.rnd.IntN(2) == 0 {
		time.Sleep(time.Duration(s.rnd.IntN(10)) * time.Second)
	}
	s.parts = 2 + s.rnd.IntN(5)
	require.NoError(s.t, s.b.CreateTopic(s.t.Context(), "t", topic.Config{Partitions: s.parts}))
	s.life, s.begun = s.life+1, time.Now()
	s.sent, s.stable = map[string]bool{}, nil
}

// act performs a random action on a member.
func (s *groupStorm) act(m *stormy) {
	var tp record.TopicPartition
	if a := m.Assignment(); len(a) > 0 {
		tp = a[s.rnd.IntN(len(a))]
	}
	switch s.rnd.IntN(9) {
	case 0:
		m.Pause(tp)
	case 1, 2:
		m.Resume()
	case 3:
		m.Wakeup()
	case 4:
		m.naps.Store(int64(time.Duration(s.rnd.IntN(2*int(consumer.DefaultMaxPollInterval/time.Second))) * time.Second))
	case 5:
		m.EnforceRebalance()
	case 6:
		m.link.off.Store(s.rnd.IntN(3) == 0) // cut off, or connected again
	case 7:
		m.CommitAsync(record.Offsets{tp: max(m.Position(tp), 0)}, nil) // may be refused
	default:
		if pos := m.Position(tp); s.seeks && pos > 0 {
			if err := m.Seek(tp, s.rnd.Int64N(pos)); err != nil && !errors.Is(err, consumer.ErrNotAssigned) {
				s.t.Error(err)
			}
		}
	}
}

func TestStormOfRebalancesSeeksPausesClosesAndRecreations(t *testing.T) {
	seeds := uint64(18)
	if sample.Hurried() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
				s := &groupStorm{
					t: t, b: b, rnd: rand.New(rand.NewPCG(seed, 3)), seeks: seed%2 == 0, parts: 4,
					sent: map[string]bool{}, seen: map[string]int{}, owner: map[string]string{},
				}
				assignors := [][]assignor.Assignor{nil, {assignor.Sticky()}, {assignor.Range()}}[seed/2%3]
				p, err := producer.New(b, producer.Config{})
				require.NoError(t, err)
				members := []*stormy{}
				for step := range 120 {
					at := s.rnd.IntN(max(len(members), 1))
					switch k := s.rnd.IntN(20); {
					case len(members) < 2 || len(members) < 5 && k < 3:
						way := []string{"Records", "Batches"}[s.rnd.IntN(2)]
						members = append(members, s.join(fmt.Sprint("m", step), way, assignors))
					case k < 5:
						members[at].leave(k == 3)
						members = append(members[:at], members[at+1:]...)
					case k == 5 && step > 20:
						s.recreate()
					case k == 6 && s.parts < 8:
						s.parts++
						require.NoError(t, b.AddPartitions(t.Context(), "t", s.parts))
					default:
						s.act(members[at])
					}
					s.send(p)
					time.Sleep(time.Duration(s.rnd.IntN(9000)) * time.Millisecond)
					s.commitsGoForward()
				}
				for _, m := range members {
					m.link.off.Store(false)
					m.naps.Store(0)
					m.Resume()
				}
				time.Sleep(30 * time.Minute) // bodies end, removed members join again
				for _, m := range members {
					m.Resume()
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				s.commitsGoForward()
				s.mu.Lock()
				for v := range s.sent {
					if s.seen[v] == 0 {
						t.Errorf("record %s was skipped", v)
					}
				}
				s.mu.Unlock()
				var cs []*consumer.Consumer
				for _, m := range members {
					cs = append(cs, m.Consumer)
				}
				requireOneOwnerEach(t, int32(s.parts), cs...)
				for _, m := range members {
					m.leave(false)
				}
				require.NoError(t, p.Close())
			})
		})
	}
}
