package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// silent is a cluster whose leader of partition 0 does not respond until a time. Each ListOffsets
// that needs it takes half a second.
type silent struct {
	*strata.Cluster
	until  time.Time
	answer func(map[record.TopicPartition]partition.OffsetResult) // sets the result of partition 0
	spared func(partition.OffsetSpec) bool                        // lookups that it responds to; nil: none

	mu      sync.Mutex
	queries []int // partitions in each ListOffsets
}

// answers are the ways to return the offsets of the other partitions.
var answers = map[string]func(map[record.TopicPartition]partition.OffsetResult){
	"left out": func(got map[record.TopicPartition]partition.OffsetResult) { delete(got, tp(0)) },
	"with an error": func(got map[record.TopicPartition]partition.OffsetResult) {
		got[tp(0)] = partition.OffsetResult{Offset: -1, Err: partition.ErrTimeout}
	},
}

func (s *silent) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	s.mu.Lock()
	s.queries = append(s.queries, len(at))
	s.mu.Unlock()
	got, err := s.Cluster.ListOffsets(ctx, at, iso)
	spec, queried := at[tp(0)]
	if !queried || s.spared != nil && s.spared(spec) || !time.Now().Before(s.until) {
		return got, err
	}
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.answer(got)
	return got, err
}

func TestLeaderThatDoesNotReturnOffsetsDelaysNoOtherPartition(t *testing.T) {
	for name, answer := range answers {
		for what, reset := range map[string]consumer.Reset{"start": consumer.Earliest(), "end": consumer.At(time.Now().Add(1000 * time.Hour))} {
			t.Run(name+" "+what, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					s := &silent{Cluster: b, answer: answer, until: time.Now().Add(5 * time.Second)}
					if what == "end" { // it is looked up when there is no record at the time
						s.spared = func(spec partition.OffsetSpec) bool { return spec != partition.Latest }
					}
					c := open(t, s, consumer.Config{Topics: []string{"t"}, Reset: reset})
					late := map[int32]time.Duration{}
					done := make(chan struct{})
					go func() {
						defer close(done)
						for r, err := range c.Records(t.Context()) {
							if err != nil {
								t.Errorf("told: %v", err)
								return
							}
							if late[r.Partition] = time.Since(r.Timestamp); len(late) == 2 {
								return
							}
						}
					}()
					time.Sleep(700 * time.Millisecond)
					fill(t, b, 1, 1)
					time.Sleep(6 * time.Second)
					fill(t, b, 0, 1)
					<-done
					require.LessOrEqual(t, late[1], time.Second)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

func TestReadAndSeekWaitForALeaderThatDoesNotReturnOffsets(t *testing.T) {
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 1)
				fill(t, b, 1, 1)
				s := &silent{Cluster: b, answer: answer, until: time.Now().Add(3 * time.Second)}
				go func() {
					time.Sleep(time.Second)
					fill(t, b, 1, 1) // after its end was looked up
				}()
				require.ElementsMatch(t, []string{"0:0", "1:0"}, places(t, s, consumer.ReadConfig{Topic: "t"}))
				require.Equal(t, 2, s.queries[0])
				require.Equal(t, 1, s.queries[1], "only the missing one is looked up again")

				c := open(t, s, consumer.Config{Assign: record.Offsets{tp(0): 5, tp(1): 5}})
				s.until = time.Now().Add(3 * time.Second)
				require.NoError(t, c.SeekTime(t.Context(), time.Now().Add(-time.Hour)))
				require.Equal(t, []int64{0, 0}, []int64{c.Position(tp(0)), c.Position(tp(1))})
				require.NoError(t, c.Close())

				s.until = time.Now().Add(time.Hour)
				for _, err := range consumer.Read(t.Context(), s, consumer.ReadConfig{Topic: "t"}) {
					require.ErrorIs(t, err, partition.ErrTimeout)
					require.NotErrorIs(t, err, replication.ErrUnknownTopic)
				}
			})
		})
	}
}

// mute is a cluster whose leader of partition 0 does not respond to fetches while set. Then the
// fetch has no records of the other partitions either. Each fetch without records takes MaxWait.
type mute struct {
	*strata.Cluster
	set     func() bool
	err     error // the error of partition 0 otherwise; nil: none
	hole    bool  // no partition has records
	fetches int
}

func (m *mute) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	m.fetches++
	now := *req
	now.MaxWait = 0
	resp, err := m.Cluster.Fetch(ctx, &now)
	if err != nil {
		return nil, err
	}
	set, empty := m.set(), true
	for i := range resp.Partitions {
		fp := &resp.Partitions[i]
		switch unknown := (partition.FetchedPartition{TopicPartition: fp.TopicPartition, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}); {
		case set && fp.Partition == 0:
			*fp = unknown
		case fp.Partition == 0 && m.err != nil:
			*fp = unknown
			fp.Err = m.err
		case set || m.hole:
			fp.Bytes = nil
		}
		empty = empty && fp.Err == nil && len(fp.Bytes) == 0
	}
	if empty {
		select {
		case <-time.After(req.MaxWait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return resp, nil
}

func TestReadEndsNoPartitionWhileALeaderDoesNotRespond(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		fill(t, b, 1, 1)
		until := time.Now().Add(3 * time.Second)
		m := &mute{Cluster: b, set: func() bool { return time.Now().Before(until) }}
		require.ElementsMatch(t, []string{"0:0", "1:0"}, places(t, m, consumer.ReadConfig{Topic: "t"}))
		require.Less(t, m.fetches, 20, "it does not fetch again and again")
		require.LessOrEqual(t, time.Since(until), time.Second)

		until = time.Now().Add(3 * time.Second)
		m.hole = true
		require.Empty(t, places(t, m, consumer.ReadConfig{Topic: "t"}))
		require.LessOrEqual(t, time.Since(until), time.Second, "a gap ends it as soon as both respond")
	})
}

func TestLagAndErrorsOutlastALeaderThatDoesNotRespond(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		silent := false
		m := &mute{Cluster: b, set: func() bool { return silent }}
		c := open(t, m, consumer.Config{Topics: []string{"t"}})
		poll := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := c.Poll(ctx)
			return err
		}
		require.NoError(t, poll())
		require.ErrorIs(t, poll(), context.DeadlineExceeded)
		require.Equal(t, map[record.TopicPartition]int64{tp(0): 0}, c.Lag())
		silent = true
		require.ErrorIs(t, poll(), context.DeadlineExceeded)
		require.Equal(t, map[record.TopicPartition]int64{tp(0): 0}, c.Lag(), "as of the last response")
		silent, m.err = false, fmt.Errorf("offline")
		require.ErrorIs(t, poll(), m.err)
		silent = true
		require.ErrorIs(t, poll(), context.DeadlineExceeded)
		silent = false
		require.ErrorIs(t, poll(), context.DeadlineExceeded, "the error is told once")
		require.NoError(t, c.Close())
	})
}

// countedLogs counts the calls that Read and Follow make.
type countedLogs struct {
	*strata.Cluster
	metadata, fetches int
}

func (c *countedLogs) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	c.metadata++
	return c.Cluster.Metadata(ctx, topics...)
}

func (c *countedLogs) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	c.fetches++
	return c.Cluster.Fetch(ctx, req)
}

func TestReadAndFollowNeedNoMetadataForAFetch(t *testing.T) {
	for name, read := range readers {
		for _, last := range []int{0, 8} {
			t.Run(fmt.Sprint(name, last), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					for range 8 {
						fill(t, b, 0, 1)
					}
					c, n := &countedLogs{Cluster: b}, 0
					for _, err := range read(t.Context(), c, consumer.ReadConfig{Topic: "t", MaxBytes: 1, Last: last}) {
						require.NoError(t, err)
						if n++; n == 8 {
							break
						}
					}
					require.Equal(t, 8, n)
					require.GreaterOrEqual(t, c.fetches, 8)
					require.Equal(t, 2, c.metadata, "before and after the offsets are looked up")
				})
			})
		}
	}
}
