package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// manyParts is a fetch of n partitions of "orders" at their starts, which waits for an hour.
func manyParts(n int) *kmsg.FetchRequest {
	req := want(12, "orders", make([]int64, n)...)
	req.SessionEpoch, req.MinBytes, req.MaxWaitMillis = -1, 1, 3_600_000
	return req
}

func TestFetchesOfManyPartitionsWaitOnlyUpToABound(t *testing.T) {
	s, addr := serve(t, Config{})
	createTopic(t, addr, "orders", fewParts+1)
	c := dial(t, addr)
	s.waiting.parts = maxWaitingParts - fewParts
	answer := make(chan *kmsg.FetchResponse, 2)
	fetch := func(n int) {
		other := dial(t, addr)
		go func() { answer <- other.ask(manyParts(n)).(*kmsg.FetchResponse) }()
	}
	fetch(fewParts + 1)
	select {
	case resp := <-answer:
		require.Len(t, resp.Topics[0].Partitions, fewParts+1)
	case <-time.After(20 * time.Second):
		t.Fatal("the fetch waits")
	}
	fetch(fewParts)
	c.ask(appended("orders", 0, "one"))
	require.NotEmpty(t, (<-answer).Topics[0].Partitions[0].RecordBatches, "a small one waits")
}

func TestAPrincipalHasHalfOfThePartitionsOfWaitingFetches(t *testing.T) {
	t.Parallel()
	var w waitingFetches
	require.True(t, w.enter("a", maxWaitingParts/2))
	require.False(t, w.enter("a", fewParts+1))
	require.True(t, w.enter("a", fewParts))
	require.True(t, w.enter("b", maxWaitingParts/2))
	require.False(t, w.enter("c", fewParts+1))
	w.leave("a", fewParts)
	w.leave("a", maxWaitingParts/2)
	require.True(t, w.enter("c", maxWaitingParts/2))
	w.leave("c", maxWaitingParts/2)
	w.leave("b", maxWaitingParts/2)
	require.Zero(t, w.parts)
	require.Empty(t, w.own)
}

// The number of partitions bounds the memory of sessions, so names must be bounded too.
func TestFetchSessionsKeepNoNamesThatNoTopicCanHave(t *testing.T) {
	_, c := fetchServer(t)
	long := strings.Repeat("n", 250)
	resp := c.fetch(inSession(want(12, long, 0), 0, 0))
	require.NotZero(t, resp.Topics[0].Partitions[0].ErrorCode)
	require.Zero(t, resp.SessionID)
	id := c.fetch(inSession(want(12, "orders", 0), 0, 0)).SessionID
	require.NotZero(t, id)
	require.Equal(t, FetchSessionIDNotFound, Code(c.fetch(inSession(want(12, long, 0), id, 1)).ErrorCode))
}
