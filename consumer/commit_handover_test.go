package consumer_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// secondCommits is a backend whose commits take a second each.
type secondCommits struct {
	consumer.Backend
	sent atomic.Int64
}

func (s *secondCommits) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	s.sent.Add(1)
	time.Sleep(time.Second)
	return s.Backend.CommitOffsets(ctx, req)
}

// A loop body queues commits while its partitions are about to be revoked. The partitions stay the
// member's until the body returns, so the commits count and the next owner repeats no record.
func TestQueuedCommitsAreSentBeforeAPartitionIsGivenUp(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"cooperative": nil, "eager": {assignor.Range()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 5)
				fill(t, b, 1, 5)
				link := &secondCommits{Backend: b}
				cfg := config(consumer.CommitManual)
				cfg.Assignors = assignors
				c := open(t, link, cfg)
				var outcomes []error
				queue := func(o record.Offsets) {
					c.CommitAsync(o, func(_ record.Offsets, err error) { outcomes = append(outcomes, err) })
				}
				var newcomer *consumer.Consumer
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for batch, err := range c.Batches(ctx) {
						if err != nil || newcomer != nil {
							t.Errorf("%v, %d records come again", err, batch.Len())
							return
						}
						newcomer = open(t, b, cfg)
						// the group moves a partition; this body is at work
						time.Sleep(time.Minute)
						queue(record.Offsets{tp(0): 1})
						synctest.Wait() // the commit is under way
						queue(record.Offsets{tp(0): 3, tp(1): 2})
						queue(batch.Offsets())
					}
				}()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				stop()
				<-done
				require.Equal(t, []error{nil, nil, nil}, outcomes)
				require.Equal(t, record.Offsets{tp(0): 5, tp(1): 5}, committed(t, b, "g"))
				require.Equal(t, int64(2), link.sent.Load(), "those that wait go together")
				require.Len(t, c.Assignment(), 1)
			})
		})
	}
}

func TestCommitsQueuedByOnRevokedAreSentBeforeThePartitionIsGivenUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		fill(t, b, 1, 5)
		link := &secondCommits{Backend: b}
		cfg := config(consumer.CommitManual)
		var c *consumer.Consumer
		var outcomes []error
		cfg.OnRevoked = func(_ context.Context, tps []record.TopicPartition) {
			for _, tp := range tps {
				for next := range int64(5) {
					c.CommitAsync(record.Offsets{tp: next + 1}, func(_ record.Offsets, err error) { outcomes = append(outcomes, err) })
				}
			}
		}
		c = open(t, link, cfg)
		m := poll(t, c, nil)
		time.Sleep(time.Minute)
		cfg.OnRevoked = nil
		other := poll(t, open(t, b, cfg), nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, make([]error, 5), outcomes)
		require.Len(t, other.Assignment(), 1)
		given := other.Assignment()[0]
		require.Equal(t, record.Offsets{given: 5}, committed(t, b, "g"))
		other.leave(t)
		m.leave(t)
	})
}

// Older offsets that the application queued are not stored after the commit of the hand-over.
func TestQueuedCommitsDoNotSetAPartitionBackThatIsGivenUp(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		fill(t, b, 1, 5)
		link := &secondCommits{Backend: b}
		cfg := config(consumer.CommitProcessed)
		cfg.CommitInterval = time.Hour // no later commit hides a wrong one
		c := open(t, link, cfg)
		var newcomer *member
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, err := range c.Batches(ctx) {
				if err != nil || newcomer != nil {
					t.Errorf("%v, or records come again", err)
					return
				}
				newcomer = poll(t, open(t, b, cfg), func(r record.Record) { t.Errorf("offset %d of %d comes again", r.Offset, r.Partition) })
				time.Sleep(time.Minute) // the group moves a partition; this body is at work
				for next := range int64(4) {
					c.CommitAsync(record.Offsets{tp(0): next + 1, tp(1): next + 1}, nil)
					synctest.Wait() // the first commit is under way, the others wait
				}
			}
		}()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, newcomer.Assignment(), 1)
		require.Equal(t, int64(5), committed(t, b, "g")[newcomer.Assignment()[0]])
		stop()
		<-done
		newcomer.leave(t)
	})
}

// slowFirstCommit is a backend whose first commit takes five seconds to arrive. It keeps the
// offsets of partition 0 in order of arrival.
type slowFirstCommit struct {
	consumer.Backend
	sent    atomic.Int64
	mu      sync.Mutex
	arrived []int64
}

func (s *slowFirstCommit) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	if s.sent.Add(1) == 1 {
		time.Sleep(5 * time.Second)
	}
	s.mu.Lock()
	if o, ok := req.Offsets[tp(0)]; ok {
		s.arrived = append(s.arrived, o.Offset)
	}
	s.mu.Unlock()
	return s.Backend.CommitOffsets(ctx, req)
}

// A group that begins at the end commits its start position, also before it is handed a record.
// That commit may be slow: commits of records handed out meanwhile follow it.
func TestBeforeDeliveryCommitsWhereItBeganAndInOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		link := &slowFirstCommit{Backend: b}
		cfg := config(consumer.CommitBeforeDelivery)
		cfg.Reset = consumer.Latest()
		var got atomic.Int64
		m := poll(t, open(t, link, cfg), func(record.Record) { got.Add(1) })
		time.Sleep(3 * time.Second) // several commit intervals
		require.EqualValues(t, 1, link.sent.Load())
		fill(t, b, 0, 1)
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, got.Load())
		require.Equal(t, record.Offsets{tp(0): 4}, committed(t, b, "g"))
		p, err := producer.New(b, producer.Config{TransactionalID: "id"})
		require.NoError(t, err)
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String("t", "", "aborted")))
		require.NoError(t, p.Flush(t.Context()))
		require.NoError(t, tx.Abort(t.Context()))
		require.NoError(t, p.Close())
		time.Sleep(10 * time.Second)
		require.Equal(t, record.Offsets{tp(0): 6}, committed(t, b, "g"))
		m.leave(t)
		require.Equal(t, record.Offsets{tp(0): 6}, committed(t, b, "g"))
		require.Equal(t, int64(3), link.arrived[0])
		require.True(t, slices.IsSorted(link.arrived), "the group went back: %v", link.arrived)
	})
}
