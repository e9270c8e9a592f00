package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// slowCommits is a backend whose first commits are delayed.
type slowCommits struct {
	*strata.Cluster
	mu     sync.Mutex
	delays []time.Duration // of the next commits
	begun  func()          // called when a commit is delayed; may be nil
}

func (b *slowCommits) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	b.mu.Lock()
	delay := time.Duration(0)
	if len(b.delays) > 0 {
		delay, b.delays = b.delays[0], b.delays[1:]
	}
	b.mu.Unlock()
	if delay > 0 {
		if b.begun != nil {
			b.begun()
		}
		time.Sleep(delay)
	}
	return b.Cluster.CommitOffsets(ctx, req)
}

func TestAfterPollEveryOtherWayOfReadingGoesOnBehindItsBatch(t *testing.T) {
	for _, mode := range []consumer.CommitMode{consumer.CommitProcessed, consumer.CommitManual, consumer.CommitBeforeDelivery} {
		bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
			fill(t, cl, 0, 40)
			fill(t, cl, 1, 40)
			c := open(t, cl, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: mode, MaxPollRecords: 60})
			seen := map[record.TopicPartition]int64{}
			note := func(r record.Record) {
				at := record.TopicPartition{Topic: r.Topic, Partition: r.Partition}
				require.Equal(t, seen[at], r.Offset, "%v in mode %d", at, mode)
				seen[at]++
			}
			b, err := c.Poll(t.Context()) // a batch of both partitions
			require.NoError(t, err)
			require.Equal(t, 60, b.Len())
			for r := range b.All() {
				note(r)
			}
			n := 0
			for r, err := range c.Records(t.Context()) {
				require.NoError(t, err)
				if n++; n > 10 {
					break // r is not processed: it is read again
				}
				note(r)
			}
			for b, err := range c.Batches(t.Context()) {
				require.NoError(t, err)
				_ = b
				// No record of the batch is processed. Unless committed before, it is read again,
				// and no older record is.
				break
			}
			if mode != consumer.CommitBeforeDelivery {
				for _, r := range read(t, c, 10) {
					note(r)
				}
			}
			require.NoError(t, c.Close())
		})
	}
}

// A batch of three partitions is committed before its records are handed out. A loop that ends in
// one of them returns the rest of it, and all of the partitions behind it.
func TestRecordsBehindALoopThatIsLeftAreHandedOutLater(t *testing.T) {
	for taken := range 10 {
		bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
			want := map[record.TopicPartition][]int64{}
			for p := range int32(3) {
				fill(t, b, p, 3)
				want[tp(p)] = []int64{0, 1, 2}
			}
			c := open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitBeforeDelivery, MaxPollRecords: 20})
			got := map[record.TopicPartition][]int64{}
			for _, r := range append(read(t, c, taken), read(t, c, 9-taken)...) {
				at := record.TopicPartition{Topic: r.Topic, Partition: r.Partition}
				got[at] = append(got[at], r.Offset)
			}
			require.Equal(t, want, got, "the loop was left after %d records", taken)
			require.NoError(t, c.Close())
		})
	}
}

func TestSeekOrPauseWhileABatchIsCommittedBeforeDeliveryIsNotLost(t *testing.T) {
	for _, batches := range []bool{true, false} {
		bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
			fill(t, cl, 0, 10)
			fill(t, cl, 1, 10)
			var c *consumer.Consumer
			b := &slowCommits{Cluster: cl, delays: []time.Duration{time.Second}}
			b.begun = func() {
				require.NoError(t, c.Seek(tp(0), 7))
				c.Pause(tp(1))
			}
			c = open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}, Commit: consumer.CommitBeforeDelivery, MaxPollRecords: 20})
			next := func() record.Record {
				if !batches {
					return read(t, c, 1)[0]
				}
				got, err := c.Poll(t.Context())
				require.NoError(t, err)
				n := 0
				for range got.All() {
					n++
				}
				require.Equal(t, n, got.Len())
				for r := range got.All() {
					return r
				}
				t.Fatal("Poll returned nothing")
				return record.Record{}
			}
			r := next()
			require.Equal(t, tp(0), record.TopicPartition{Topic: r.Topic, Partition: r.Partition}, "the other one is paused")
			require.Equal(t, int64(7), r.Offset)
			require.NoError(t, c.Seek(tp(0), 10))
			c.Resume()
			r = next()
			require.Equal(t, int32(1), r.Partition)
			require.Zero(t, r.Offset, "what was paused was not handed out, and is not lost")
			require.NoError(t, c.Close())
		})
	}
}
