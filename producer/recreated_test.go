package producer_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// inBubble runs fn in a synctest bubble with a cluster that has topic "a" of the given number of
// partitions, and a producer.
func inBubble(t *testing.T, partitions int, cfg producer.Config, fn func(*testing.T, *strata.Cluster, *producer.Producer)) {
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{}, partitions)
		p, err := producer.New(over(t, c), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) }) // before the cluster's Close
		fn(t, c, p)
	})
}

// recreate deletes topic "a" and creates it again.
func recreate(t *testing.T, c *strata.Cluster, partitions int) {
	t.Helper()
	require.NoError(t, c.DeleteTopic(t.Context(), "a"))
	require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: partitions}))
}

// keyed returns n records of topic "a" with a key each. All have the value v.
func keyed(n int, v string) (rs []record.Record) {
	for k := range n {
		rs = append(rs, record.String("a", fmt.Sprintf("key-%d", k), v))
	}
	return rs
}

// hashed requires that the records of keyed are in the partitions of their keys' hashes.
func hashed(t *testing.T, acks []producer.Ack, partitions int) {
	t.Helper()
	for k, a := range acks {
		r := record.String("a", fmt.Sprintf("key-%d", k), "")
		require.Equal(t, int32(topic.Default().Partition(r, partitions)), a.Partition, "key %d", k)
	}
}

func TestTopicCreatedAgainWithFewerPartitionsIsSeenByTheNextSend(t *testing.T) {
	inBubble(t, 6, producer.Config{}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		acks, err := p.Send(t.Context(), keyed(24, "before")...)
		require.NoError(t, err)
		hashed(t, acks, 6)
		for _, n := range []int{2, 1, 4, 3} {
			begun := time.Now()
			recreate(t, c, n)
			begun = noticed(t, begun)
			acks, err = p.Send(t.Context(), keyed(24, "after")...)
			require.NoError(t, err)
			hashed(t, acks, n)
			require.Zero(t, time.Since(begun))
			total := 0
			for i := range int32(n) {
				total += len(read(t, c, i))
			}
			require.Equal(t, 24, total, "each of them once, and none of the former topic")
		}
	})
}

func TestAddedPartitionsAreUsedByTheNextSend(t *testing.T) {
	inBubble(t, 1, producer.Config{}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		for n := 2; n < 20; n++ {
			_, err := p.Send(t.Context(), keyed(24, "before")...)
			require.NoError(t, err)
			require.NoError(t, c.AddPartitions(t.Context(), "a", n))
			noticed(t, time.Now())
			acks, err := p.Send(t.Context(), keyed(24, "after")...)
			require.NoError(t, err)
			hashed(t, acks, n)
		}
	})
}

// outcomes sends records without waiting and collects the errors of their callbacks. It is read
// after all callbacks have run.
type outcomes struct {
	mu   sync.Mutex // guards the fields below: a callback may run during a send
	errs []error
	at   []time.Time
}

func (o *outcomes) send(t *testing.T, p *producer.Producer, rs ...record.Record) {
	for _, r := range rs {
		o.mu.Lock()
		i := len(o.errs)
		o.errs, o.at = append(o.errs, nil), append(o.at, time.Time{})
		o.mu.Unlock()
		p.SendAsync(t.Context(), r, func(_ record.Record, err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.errs[i], o.at[i] = err, time.Now()
		})
	}
}

func TestBufferedRecordsOfATopicCreatedAgainWithOtherPartitionsFailAtOnce(t *testing.T) {
	for i := range 20 { // whether the producer sees the gap is chance
		n := []int{2, 8}[i%2]
		inBubble(t, 6, producer.Config{Linger: time.Minute}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
			var o outcomes
			o.send(t, p, keyed(24, "before")...)
			begun := time.Now()
			recreate(t, c, n)
			synctest.Wait()
			latest := noticed(t, begun)
			for i, err := range o.errs { // their keys have other partitions now
				require.ErrorIs(t, err, producer.ErrUnknownTopic, i)
				require.WithinRange(t, o.at[i], begun, latest)
			}
			begun = latest
			var after outcomes
			after.send(t, p, keyed(24, "after")...)
			require.NoError(t, p.Flush(t.Context()))
			for i, err := range after.errs {
				require.NoError(t, err, i)
			}
			require.Equal(t, begun, time.Now())
		})
	}
}

func TestBufferedRecordsOfATopicCreatedAgainAreWrittenToItInOrder(t *testing.T) {
	inBubble(t, 3, producer.Config{Linger: time.Minute, BatchBytes: 200}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		_, err := p.Send(t.Context(), record.String("a", "k", "first").To(1))
		require.NoError(t, err)
		var o outcomes
		for i := range 5 {
			o.send(t, p, record.String("a", "k", fmt.Sprint(i)).To(1))
		}
		require.NoError(t, c.DeleteTopic(t.Context(), "a"))
		// no call has seen the deletion
		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 3}))
		o.send(t, p, record.String("a", "k", "5").To(1))
		require.NoError(t, p.Flush(t.Context()))
		got := read(t, c, 1)
		// whether the producer sees the gap or not, no record is lost without an error, and none
		// is in the log twice
		for i, err := range o.errs {
			if err != nil {
				require.ErrorIs(t, err, producer.ErrUnknownTopic)
				continue
			}
			require.Contains(t, got, fmt.Sprint(i))
		}
		require.NoError(t, o.errs[5])
		require.IsIncreasing(t, got)
	})
}

func TestBufferedRecordsOfADeletedTopicFailAtOnce(t *testing.T) {
	inBubble(t, 3, producer.Config{Linger: time.Minute}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		var o outcomes
		o.send(t, p, keyed(24, "before")...)
		begun := time.Now()
		require.NoError(t, c.DeleteTopic(t.Context(), "a"))
		synctest.Wait()
		latest := noticed(t, begun)
		for i, err := range o.errs {
			require.ErrorIs(t, err, producer.ErrUnknownTopic)
			require.WithinRange(t, o.at[i], begun, latest)
		}
		_, err := p.Send(t.Context(), keyed(1, "x")...)
		require.ErrorIs(t, err, producer.ErrUnknownTopic)
		require.NotErrorIs(t, err, producer.ErrTimeout)
		if !wired.On(t) { // a broker may learn of a topic later than others
			require.Equal(t, begun, time.Now())
		}

		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Partitions: 2}))
		acks, err := p.Send(t.Context(), keyed(24, "after")...)
		require.NoError(t, err, "what CreateTopic has returned from is there")
		hashed(t, acks, 2)
	})
}
