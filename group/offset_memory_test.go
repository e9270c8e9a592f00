package group

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/record"
)

// within returns the context of a principal's requests, with a budget of 1 MiB for all principals.
func within(principal string) context.Context {
	return memory.With(ctx, memory.Bound{Principal: principal, Bytes: 1 << 20})
}

// marked returns a commit with metadata.
func marked(group, metadata string, tps ...record.TopicPartition) CommitRequest {
	r := CommitRequest{Group: group, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}
	for _, tp := range tps {
		r.Offsets[tp] = record.Committed{Metadata: metadata}
	}
	return r
}

func commitWithin(t *testing.T, c *Coordinator, principal string, r CommitRequest) {
	errs, err := c.CommitOffsets(within(principal), r)
	require.NoError(t, err)
	for tp, err := range errs {
		require.NoError(t, err, "%v", tp)
	}
}

// untilFull commits in new groups until the budget is used up, and returns the number of groups.
func untilFull(t *testing.T, c *Coordinator, principal, prefix, metadata string) (n int) {
	tp := tps("t", 0)[0]
	for ; n < 1000; n++ {
		errs, err := c.CommitOffsets(within(principal), marked(fmt.Sprint(prefix, n), metadata, tp))
		require.NoError(t, err)
		if errs[tp] != nil {
			require.ErrorIs(t, errs[tp], ErrOffsetsFull)
			return n
		}
	}
	require.Fail(t, "there is always room")
	return n
}

func TestCommittedOffsetsHaveABudget(t *testing.T) {
	long, all := strings.Repeat("n", 8<<10), tps("t", 0, 1)
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), Config{}, func(t *testing.T, c *Coordinator) {
		a := untilFull(t, c, "a", "a-"+long, "")
		require.InDelta(t, 512/10, a, 3, "a principal has half")
		for range 20 { // the same partitions again
			commitWithin(t, c, "a", marked(fmt.Sprint("a-", long, 0), "fifty bytes "+strings.Repeat("m", 38), all[0]))
		}
		errs, err := c.CommitOffsets(within("a"), marked(fmt.Sprint("a-", long, 0), strings.Repeat("m", 4<<10), all...))
		require.NoError(t, err)
		for _, tp := range all {
			require.ErrorIs(t, errs[tp], ErrOffsetsFull)
		}
		b := untilFull(t, c, "b", "b-", strings.Repeat("m", 4<<10))
		require.InDelta(t, 512/6, b, 10)
		require.Zero(t, untilFull(t, c, "c", "c-"+long, ""), "both have all")
		commit(t, c, commitOf("in-process", record.Offsets{all[0]: 1}))

		require.NoError(t, c.DeleteGroup(ctx, fmt.Sprint("a-", long, 1)))
		require.Equal(t, 1, untilFull(t, c, "a", "again-"+long, ""))
		_, err = c.DeleteOffsets(ctx, "b-1", all...)
		require.NoError(t, err)
		require.Equal(t, 1, untilFull(t, c, "b", "again-", strings.Repeat("m", 4<<10)))
	})
}

func TestLoadedOffsetsCountWithoutBeingRefused(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 2}), tps("t", 0)[0]
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		n := untilFull(t, c, "a", "a-", strings.Repeat("m", 4<<10))
		untilFull(t, c, "b", "b-", strings.Repeat("m", 4<<10))
		used := c.memory.Used()
		require.Equal(t, used, c.memory.Of("a")+c.memory.Of("b"))
		reopened(t, store, Config{}, func(next *Coordinator) {
			commitWithin(t, next, "a", marked("a-0", strings.Repeat("m", 4<<10), tp))
			_, err := next.Groups(ctx)
			require.NoError(t, err)
			require.Equal(t, used, next.memory.Used())
			require.Equal(t, used, next.memory.Of(""))
			require.Zero(t, untilFull(t, next, "a", "more-"+strings.Repeat("n", 8<<10), ""))
			require.NoError(t, next.DeleteGroup(ctx, fmt.Sprint("a-", n-1)))
			require.Positive(t, untilFull(t, next, "a", "more-", strings.Repeat("m", 4<<10)))
		})
	})
}
