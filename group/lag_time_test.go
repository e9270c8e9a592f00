package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// timeLags returns the time lags by group.
func timeLags(t *testing.T, c *Coordinator) map[string]TimeLag {
	t.Helper()
	all, err := c.TimeLags(ctx)
	require.NoError(t, err)
	out := make(map[string]TimeLag)
	for _, l := range all {
		out[l.Group] = l
	}
	return out
}

// since is the age of the record at an offset of a fakeStore.
func since(offset int64) time.Duration { return time.Since(time.Unix(offset, 0)) }

func TestTimeLagIsTheAgeOfTheOldestRecordNotCommitted(t *testing.T) {
	store := logs(map[string]int32{"t": 2, "gone": 1})
	tp, second := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "t", Partition: 1}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("done", record.Offsets{tp: 100, second: 100, {Topic: "gone"}: 20}))
		commit(t, c, commitOf("behind", record.Offsets{tp: 60, second: 80}))
		commit(t, c, commitOf("far", record.Offsets{tp: 3, second: 100}))
		store.set("gone", TopicInfo{})
		lags := timeLags(t, c)
		require.Equal(t, TimeLag{Group: "done", Partitions: map[record.TopicPartition]time.Duration{tp: 0, second: 0}}, lags["done"])
		require.Equal(t, TimeLag{Group: "behind", Lag: since(60), Partitions: map[record.TopicPartition]time.Duration{tp: since(60), second: since(80)}}, lags["behind"])
		require.Equal(t, since(10), lags["far"].Lag, "retention has removed the records before")

		asked := len(store.stamped)
		time.Sleep(10 * time.Second)
		require.Equal(t, since(60), timeLags(t, c)["behind"].Lag)
		require.Len(t, store.stamped, asked, "timestamps are remembered")
		commit(t, c, commitOf("behind", record.Offsets{tp: 70}))
		require.Equal(t, since(70), timeLags(t, c)["behind"].Lag)
		require.Equal(t, 1, store.stamped[len(store.stamped)-1], "only the partition in which it has committed")
		store.with(func(f *fakeStore) { f.starts[tp] = 90 })
		require.Equal(t, since(90), timeLags(t, c)["behind"].Partitions[tp], "retention has removed the record")
		require.NoError(t, c.DeleteGroup(ctx, "behind"))
		timeLags(t, c)
		require.Len(t, c.oldest, 1, "nothing is kept of a group that is deleted, nor of partitions without lag")
	})
}

func TestTailOfMarkersIsNoTimeLag(t *testing.T) {
	store := logs(map[string]int32{"t": 1})
	tp := record.TopicPartition{Topic: "t"}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 98}))
		store.markers = record.Offsets{tp: 2}
		for range 3 {
			require.Equal(t, TimeLag{Group: "g", Partitions: map[record.TopicPartition]time.Duration{tp: 0}}, timeLags(t, c)["g"])
			time.Sleep(time.Second)
		}
		require.Len(t, store.stamped, 1, "it is not searched again")
		store.with(func(f *fakeStore) { f.ends[tp], f.markers[tp] = 105, 4 })
		require.Equal(t, since(100), timeLags(t, c)["g"].Lag, "the first record behind the markers")
	})
}

func TestTimeLagsOfMoreGroupsThanACallReadsAreKnownAfterAFewCalls(t *testing.T) {
	store := logs(map[string]int32{"t": 2})
	tp, hung := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "t", Partition: 1}
	store.ends[tp], store.ends[hung] = 10000, 10000
	store.hung = map[record.TopicPartition]error{hung: errors.New("no answer")}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		const groups = 450
		for g := range int64(groups) {
			commit(t, c, commitOf(fmt.Sprintf("g%03d", g), record.Offsets{tp: 20 + g}))
		}
		commit(t, c, commitOf("two", record.Offsets{tp: 5000, hung: 10}))
		commit(t, c, commitOf("three", record.Offsets{tp: 5000, hung: 11}))
		for call, want := range []int{200, 400, groups + 2, groups + 2} {
			store.stamped = nil
			known := 0
			for g, l := range timeLags(t, c) {
				if lag, ok := l.Partitions[tp]; ok {
					known++
					if g[0] == 'g' {
						var n int64
						_, err := fmt.Sscanf(g, "g%d", &n)
						require.NoError(t, err)
						require.Equal(t, since(20+n), lag)
					}
				} else {
					require.Positive(t, l.Unknown)
				}
				if g[0] == 't' {
					require.NotContains(t, l.Partitions, hung)
				}
			}
			require.GreaterOrEqual(t, known, want-2, "call %d", call)
			read := 0
			for _, n := range store.stamped {
				read += n
			}
			require.LessOrEqual(t, read, maxTimeLookups, "call %d", call)
		}
		time.Sleep(2 * oldestFresh)
		for range 3 {
			require.Equal(t, since(20), timeLags(t, c)["g000"].Lag, "a timestamp that is not fresh counts until it is read again")
		}
	})
}
