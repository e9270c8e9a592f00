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
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// A ledger holds the owner of each partition, from the callbacks of all members, and the processed
// records.
type ledger struct {
	t testing.TB

	mu    sync.Mutex // guards the fields below
	owner map[record.TopicPartition]int
	seen  map[string]int
}

func (l *ledger) assigned(member int) func(context.Context, []record.TopicPartition) {
	return func(_ context.Context, tps []record.TopicPartition) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, tp := range tps {
			if other, ok := l.owner[tp]; ok {
				l.t.Errorf("%v was assigned to member %d, member %d has it", tp, member, other)
			}
			l.owner[tp] = member
		}
	}
}

func (l *ledger) gone(member int) func(context.Context, []record.TopicPartition) {
	return func(_ context.Context, tps []record.TopicPartition) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, tp := range tps {
			if owner, ok := l.owner[tp]; !ok || owner != member {
				l.t.Errorf("%v was taken from member %d, which does not have it", tp, member)
			}
			delete(l.owner, tp)
		}
	}
}

func (l *ledger) process(member int, r record.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner, ok := l.owner[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}]; !ok || owner != member {
		l.t.Errorf("member %d got a record of partition %d, which it does not have", member, r.Partition)
	}
	l.seen[string(r.Value)]++
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// Members join and leave while records are produced. At every moment a partition has at most one
// owner, callbacks come in pairs, and every record is processed. Fetches wait for an hour and
// records must arrive within a minute, so that a lost wake-up fails the test.
func TestMembersComeAndGoAndEveryRecordIsProcessedByAnOwner(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"eager": {assignor.Range()}, "cooperative": {assignor.CooperativeSticky()}} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				bubble(t, 6, func(t *testing.T, b *strata.Cluster) {
					rnd := rand.New(rand.NewPCG(seed, 1))
					l := &ledger{t: t, owner: map[record.TopicPartition]int{}, seen: map[string]int{}}
					p, err := producer.New(b, producer.Config{})
					require.NoError(t, err)
					members := map[int]*member{}
					sent := 0
					for step := range 60 {
						switch {
						case len(members) < 2 || len(members) < 5 && rnd.IntN(3) == 0:
							c := open(t, b, consumer.Config{
								Group: "g", Topics: []string{"t"}, Assignors: assignors, MaxWait: time.Hour,
								OnAssigned: l.assigned(step), OnRevoked: l.gone(step), OnLost: l.gone(step),
							})
							members[step] = poll(t, c, func(r record.Record) { l.process(step, r) })
						case rnd.IntN(2) == 0:
							for id, m := range members {
								m.leave(t)
								delete(members, id)
								break
							}
						}
						for range rnd.IntN(20) {
							_, err := p.Send(t.Context(), record.String("t", fmt.Sprint(sent), fmt.Sprint(sent)))
							require.NoError(t, err)
							sent++
						}
						time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Equal(t, sent, l.count())
					l.mu.Lock()
					require.Len(t, l.owner, 6, "every partition has its owner")
					l.mu.Unlock()
					for _, m := range members {
						m.leave(t)
					}
					require.Empty(t, l.owner)
					require.NoError(t, p.Close())
				})
			})
		}
	}
}

// One goroutine polls, others seek, pause, resume and wake it up, and records are produced. The
// records of a partition follow on the previous one, or on a seek. In the end every record is
// read: no wake-up is lost.
func TestSeeksPausesAndWakeupsNeitherLoseNorRepeatARecord(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
				s := &seeker{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), next: map[record.TopicPartition]int64{}}
				start := record.Offsets{tp(0): 0, tp(1): 0, tp(2): 0}
				c := open(t, b, consumer.Config{Assign: start, MaxWait: time.Hour, MaxPollRecords: 1 + int(seed%7), PartitionBytes: 100})
				done := make(chan struct{})
				ctx, stop := context.WithCancel(t.Context())
				go func() {
					defer close(done)
					s.poll(ctx, c, seed%2 == 0)
				}()
				p, err := producer.New(b, producer.Config{})
				require.NoError(t, err)
				total := [3]int64{}
				for range 200 {
					at := s.rnd.Int32N(3)
					switch s.rnd.IntN(6) {
					case 0:
						s.seek(c, tp(at), s.rnd.Int64N(total[at]+1))
					case 1:
						c.Pause(tp(at))
					case 2:
						c.Resume(tp(0), tp(1), tp(2))
					case 3:
						c.Wakeup()
					default:
						_, err := p.Send(t.Context(), record.String("t", "", "v").To(at))
						require.NoError(t, err)
						total[at]++
					}
					if s.rnd.IntN(3) == 0 {
						synctest.Wait()
					}
				}
				c.Resume(tp(0), tp(1), tp(2))
				wired.Settle(t)
				for i, n := range total {
					require.Equal(t, n, c.Position(tp(int32(i))), "everything is read without waiting for a fetch to end")
				}
				stop()
				<-done
				require.NoError(t, p.Close())
				require.NoError(t, c.Close())
			})
		})
	}
}

// seeker checks the records handed out against the seeks.
type seeker struct {
	t   testing.TB
	rnd *rand.Rand

	mu   sync.Mutex // guards next; also held over a seek, so that the order of seeks is known
	next map[record.TopicPartition]int64
}

func (s *seeker) seek(c *consumer.Consumer, tp record.TopicPartition, offset int64) {
	synctest.Wait() // no record is in hand: the poller waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := c.Seek(tp, offset); err != nil {
		s.t.Error(err)
	}
	s.next[tp] = offset
}

func (s *seeker) take(r record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tp := record.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	if r.Offset != s.next[tp] {
		s.t.Errorf("%v: offset %d instead of %d", tp, r.Offset, s.next[tp])
	}
	s.next[tp] = r.Offset + 1
}

func (s *seeker) poll(ctx context.Context, c *consumer.Consumer, byPoll bool) {
	for ctx.Err() == nil {
		if byPoll {
			b, err := c.Poll(ctx)
			if errors.Is(err, consumer.ErrWakeup) {
				continue
			}
			if err != nil {
				return
			}
			for r := range b.All() {
				s.take(r)
			}
			continue
		}
		for r, err := range c.Records(ctx) { // ends at every Wakeup
			if err != nil {
				s.t.Error(err)
				return
			}
			s.take(r)
		}
	}
}
