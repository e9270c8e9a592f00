package kafka

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// bulk makes a topic with large records, and a request for all of them.
func bulk(t *testing.T, cfg Config) (*Server, *client, *kmsg.FetchRequest) {
	cfg.NoAutoCreate = true
	s, addr := serve(t, cfg)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "bulk", topic.Config{Partitions: 2}))
	c := dial(t, addr)
	for i := range 8 {
		resp := c.ask(appended("bulk", int32(i%2), strings.Repeat(string(rune('a'+i)), 100<<10))).(*kmsg.ProduceResponse)
		require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	}
	return s, c, want(12, "bulk", 0, 0)
}

func TestBulkReadersGetTheirRecordsFromBuffersUsedAgain(t *testing.T) {
	s, c, req := bulk(t, Config{})
	first := c.fetch(req).Topics[0].Partitions
	require.Greater(t, len(first[0].RecordBatches)+len(first[1].RecordBatches), 800<<10)
	back := func() { // the client has its answer before the answer's buffer is back
		require.Eventually(t, func() bool {
			return whole(s)
		}, 20*time.Second, time.Millisecond)
	}
	for range 3 {
		c.fetch(want(12, "bulk", 1, 1)) // other bytes into the same memory
		back()
		require.Equal(t, first, c.fetch(req).Topics[0].Partitions)
		back()
	}
}

func TestBudgetIsWholeAfterBulkFetches(t *testing.T) {
	s, c, req := bulk(t, Config{})
	for range 3 {
		c.fetch(req)
	}
	c.nc.Close()
	require.NoError(t, s.Close())
	require.True(t, whole(s), "all bytes were given back")
}

// keeper keeps every answer it sees.
type keeper struct {
	mu   sync.Mutex
	seen []*Exchange
}

func (k *keeper) Before(*Exchange) Action { return Action{} }

func (k *keeper) After(x *Exchange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, x)
}

func TestWhatAnInterceptorSawIsNotOverwritten(t *testing.T) {
	k := &keeper{}
	_, c, req := bulk(t, Config{Intercept: k})
	c.fetch(req)
	first := c.fetch(req).Topics[0].Partitions
	c.fetch(want(12, "bulk", 1, 1))
	c.fetch(want(12, "bulk", 2, 2))
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, x := range k.seen {
		if resp, ok := x.Response.(*kmsg.FetchResponse); ok && n < 2 {
			require.Equal(t, first[0].RecordBatches, resp.Topics[0].Partitions[0].RecordBatches)
			n++
		}
	}
	require.Equal(t, 2, n)
}
