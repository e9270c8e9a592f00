package consumer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// heldCommits is a backend whose first commit takes a second, so that later commits gather behind
// it. It keeps the offsets of each commit that arrived.
type heldCommits struct {
	*strata.Cluster
	// answer replaces the cluster's answer to commit n, counted from 0, unless both its results
	// are nil. answer may be nil.
	answer func(n int, o map[record.TopicPartition]record.Committed) (map[record.TopicPartition]error, error)

	mu   sync.Mutex
	seen []record.Offsets
}

func (b *heldCommits) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	o := record.Offsets{}
	for tp, co := range req.Offsets {
		o[tp] = co.Offset
	}
	b.mu.Lock()
	n := len(b.seen)
	b.seen = append(b.seen, o)
	b.mu.Unlock()
	if n == 0 {
		time.Sleep(time.Second)
	}
	if b.answer != nil {
		if per, err := b.answer(n, req.Offsets); per != nil || err != nil {
			return per, err
		}
	}
	return b.Cluster.CommitOffsets(ctx, req)
}

// commits returns the offsets of the commits that have arrived.
func (b *heldCommits) commits() []record.Offsets {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// outcome holds the arguments of a callback of CommitAsync.
type outcome struct {
	offsets record.Offsets
	err     error
}

// gathering opens a consumer of two partitions that has read ten records of each and has a commit
// under way. Later commits gather behind it.
func gathering(t *testing.T, cl *strata.Cluster, b *heldCommits) (c *consumer.Consumer, got chan outcome) {
	t.Helper()
	fill(t, cl, 0, 10)
	fill(t, cl, 1, 10)
	b.Cluster = cl
	c = open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitManual})
	read(t, c, 20)
	got = make(chan outcome, 20)
	c.CommitAsync(record.Offsets{tp(0): 1}, note(got))
	synctest.Wait() // the commit is on its way
	return c, got
}

func note(got chan outcome) func(record.Offsets, error) {
	return func(o record.Offsets, err error) { got <- outcome{o, err} }
}

func TestCommitsThatWaitAreSentAsOneAndCalledBackInOrder(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{}
		c, got := gathering(t, cl, b)
		want := []record.Offsets{{tp(0): 1}, {tp(0): 2}, {tp(1): 5}, {tp(0): 4, tp(1): 6}, {tp(0): 7}}
		for _, o := range want[1:] {
			c.CommitAsync(o, note(got))
		}
		for _, o := range want {
			require.Equal(t, outcome{o, nil}, <-got)
		}
		require.Equal(t, []record.Offsets{{tp(0): 1}, {tp(0): 7, tp(1): 6}}, b.commits())
		require.Equal(t, record.Offsets{tp(0): 7, tp(1): 6}, committed(t, cl, "g"))
		require.Equal(t, int64(5), c.Stats().Commits)
		require.NoError(t, c.Close())
	})
}

func TestOfCommitsSentTogetherTheLaterWinsAlsoAfterASeekBack(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{}
		c, got := gathering(t, cl, b)
		c.CommitAsync(record.Offsets{tp(0): 9}, note(got))
		require.NoError(t, c.Seek(tp(0), 2))
		c.CommitAsync(record.Offsets{tp(0): 3}, note(got))
		for range 3 {
			require.NoError(t, (<-got).err)
		}
		require.Len(t, b.commits(), 2)
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, cl, "g"))
		require.NoError(t, c.Close())
	})
}

func TestCommitThatIsRefusedLeavesThoseSentWithItAlone(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{}
		c, got := gathering(t, cl, b)
		for _, o := range []record.Offsets{{tp(0): 5}, {tp(0): 6, tp(1): 11}, {tp(1): 4, tp(9): 1}, {tp(1): -2}, {}, {tp(1): 3}} {
			c.CommitAsync(o, note(got))
		}
		require.NoError(t, (<-got).err)
		require.Equal(t, outcome{record.Offsets{tp(0): 5}, nil}, <-got)
		require.ErrorIs(t, (<-got).err, consumer.ErrRebalanced, "not reached")
		require.ErrorIs(t, (<-got).err, consumer.ErrRebalanced, "not assigned")
		require.ErrorContains(t, (<-got).err, "negative offset")
		require.Equal(t, outcome{record.Offsets{}, nil}, <-got)
		require.Equal(t, outcome{record.Offsets{tp(1): 3}, nil}, <-got)
		require.Equal(t, record.Offsets{tp(0): 5, tp(1): 3}, committed(t, cl, "g"))
		require.NoError(t, c.Close())
	})
}

func TestPartitionThatTheGroupRefusesFailsOnlyTheCommitsThatHaveIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{answer: func(n int, _ map[record.TopicPartition]record.Committed) (map[record.TopicPartition]error, error) {
			if n != 1 {
				return nil, nil
			}
			return map[record.TopicPartition]error{tp(0): nil, tp(1): group.ErrUnknownTopicOrPartition}, nil
		}}
		c, got := gathering(t, cl, b)
		for _, o := range []record.Offsets{{tp(0): 5}, {tp(1): 5}, {tp(0): 6, tp(1): 6}, {tp(0): 7}} {
			c.CommitAsync(o, note(got))
		}
		require.NoError(t, (<-got).err)
		for _, failed := range []bool{false, true, true, false} {
			require.Equal(t, failed, errors.Is((<-got).err, consumer.ErrRebalanced))
		}
		require.Equal(t, int64(3), c.Stats().Commits)
		require.NoError(t, c.Close())
	})
}

func TestCommitsTooLargeTogetherAreSentOneByOne(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{answer: func(_ int, o map[record.TopicPartition]record.Committed) (map[record.TopicPartition]error, error) {
			if len(o) > 1 {
				return nil, group.ErrTooLarge
			}
			return nil, nil
		}}
		c, got := gathering(t, cl, b)
		for _, o := range []record.Offsets{{tp(0): 5}, {tp(0): 6, tp(1): 6}, {tp(1): 7}} {
			c.CommitAsync(o, note(got))
		}
		require.NoError(t, (<-got).err)
		require.NoError(t, (<-got).err)
		require.ErrorIs(t, (<-got).err, group.ErrTooLarge)
		require.NoError(t, (<-got).err)
		require.Equal(t, record.Offsets{tp(0): 5, tp(1): 7}, committed(t, cl, "g"))
		require.NoError(t, c.Close())
	})
}

// While commits sent together wait for the end of a rebalance, one of them loses its partition.
func TestPartitionLostWhileCommitsWaitFailsOnlyTheCommitsThatHaveIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 10)
		require.NoError(t, cl.CreateTopic(t.Context(), "u", topic.Config{Partitions: 1}))
		u := record.TopicPartition{Topic: "u"}
		var c *consumer.Consumer
		b := &heldCommits{Cluster: cl, answer: func(n int, _ map[record.TopicPartition]record.Committed) (map[record.TopicPartition]error, error) {
			if n != 1 {
				return nil, nil
			}
			if err := cl.DeleteTopic(context.Background(), "u"); err != nil {
				return nil, err
			}
			c.EnforceRebalance()
			time.Sleep(time.Second)
			return nil, group.ErrRebalanceInProgress
		}}
		c = open(t, b, consumer.Config{Group: "g", Topics: []string{"t", "u"}, Commit: consumer.CommitManual})
		read(t, c, 10)
		m := poll(t, c, nil)
		require.NoError(t, c.Seek(u, 0))
		got := make(chan outcome, 4)
		c.CommitAsync(record.Offsets{tp(0): 1}, note(got))
		synctest.Wait()
		c.CommitAsync(record.Offsets{tp(0): 5}, note(got))
		c.CommitAsync(record.Offsets{tp(0): 6, u: 0}, note(got))
		c.CommitAsync(record.Offsets{tp(0): 7}, note(got))
		require.NoError(t, (<-got).err)
		require.NoError(t, (<-got).err)
		require.ErrorIs(t, (<-got).err, consumer.ErrRebalanced)
		require.NoError(t, (<-got).err)
		require.Equal(t, []record.Offsets{{tp(0): 1}, {tp(0): 7, u: 0}, {tp(0): 7}}, b.commits())
		m.leave(t)
	})
}

// A commit in a callback counts before the later calls, also if these were already sent together
// with it. A rejected one of these does not count.
func TestCommitInACallbackDoesNotUndoWhatWasSentTogetherWithIt(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{answer: func(n int, _ map[record.TopicPartition]record.Committed) (map[record.TopicPartition]error, error) {
			if n != 1 {
				return nil, nil
			}
			return map[record.TopicPartition]error{tp(0): nil, tp(1): group.ErrOffsetMetadataTooLarge}, nil
		}}
		c, got := gathering(t, cl, b)
		c.CommitAsync(record.Offsets{tp(0): 2}, func(record.Offsets, error) {
			err := c.CommitOffsets(context.Background(), record.Offsets{tp(0): 3, tp(1): 8})
			got <- outcome{nil, err}
		})
		c.CommitAsync(record.Offsets{tp(0): 6}, func(o record.Offsets, _ error) {
			err := c.CommitOffsets(context.Background(), record.Offsets{tp(0): 7})
			got <- outcome{o, err}
		})
		c.CommitAsync(record.Offsets{tp(1): 9}, note(got))
		require.NoError(t, (<-got).err)
		require.NoError(t, (<-got).err)
		require.NoError(t, (<-got).err)
		require.ErrorIs(t, (<-got).err, group.ErrOffsetMetadataTooLarge)
		require.Equal(t, []record.Offsets{{tp(0): 1}, {tp(0): 6, tp(1): 9}, {tp(1): 8}, {tp(0): 7}}, b.commits())
		require.NoError(t, c.Close())
	})
}

func TestCommitInACallbackIsRefusedWhenThePartitionIsLostAlsoIfALaterOneWasSent(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		c, got := gathering(t, cl, &heldCommits{})
		c.CommitAsync(record.Offsets{tp(0): 2}, func(record.Offsets, error) {
			time.Sleep(consumer.DefaultMaxPollInterval + time.Minute)
			got <- outcome{nil, c.CommitOffsets(context.Background(), record.Offsets{tp(0): 3})}
		})
		c.CommitAsync(record.Offsets{tp(0): 6}, note(got))
		require.NoError(t, (<-got).err)
		require.ErrorIs(t, (<-got).err, consumer.ErrRebalanced)
		require.NoError(t, (<-got).err)
		require.Equal(t, record.Offsets{tp(0): 6}, committed(t, cl, "g"))
		require.NoError(t, c.Close())
	})
}

// A Commit by another goroutine that was called last is stored last: after the gathered commits
// and the commits of their callbacks. A Commit whose context ends leaves the queue unchanged.
func TestCommitThatWaitsComesBehindThoseThatGatherAndTheirCallbacks(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		b := &heldCommits{}
		c, got := gathering(t, cl, b)
		for i := range int64(3) {
			c.CommitAsync(record.Offsets{tp(0): 2 + i}, func(o record.Offsets, err error) {
				// the last one, too: no later commit proceeds before its callback has returned
				if i >= 1 {
					// gives a commit that waits behind it the time to overtake
					time.Sleep(time.Millisecond)
					err = errors.Join(err, c.CommitOffsets(context.Background(), record.Offsets{tp(1): 1 + i}))
				}
				got <- outcome{o, err}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.CommitOffsets(ctx, record.Offsets{tp(0): 1}), context.DeadlineExceeded)
		require.NoError(t, c.CommitOffsets(t.Context(), record.Offsets{tp(0): 10, tp(1): 10}))
		require.Equal(t, []record.Offsets{{tp(0): 1}, {tp(0): 4}, {tp(1): 2}, {tp(1): 3}, {tp(0): 10, tp(1): 10}}, b.commits())
		for i := range int64(4) {
			require.Equal(t, outcome{record.Offsets{tp(0): 1 + i}, nil}, <-got)
		}
		require.NoError(t, c.Close())
	})
}
