package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
)

// Closing the cluster ends all calls under way with its brokers.
func TestClusterIsClosedWhileBrokersComeAndGo(t *testing.T) {
	for round := range 20 {
		ds := newDisks(3)
		c, err := Open(ds.config())
		require.NoError(t, err)
		placed(t, c, "orders", 1, 2, 3)
		var wg sync.WaitGroup
		for p := range int32(3) {
			produce(t, c, at("orders", p), "x")
			wg.Go(func() {
				_ = c.KillBroker(p + 1)
				_ = c.StartBroker(t.Context(), p+1)
				_ = c.StopBroker(t.Context(), p+1)
			})
		}
		for range round {
			c.Status("orders", 0)
		}
		_ = c.Close()
		wg.Wait()
		require.ErrorIs(t, c.StartBroker(t.Context(), 1), ErrClosed)
		require.ErrorIs(t, c.KillBroker(1), ErrClosed)
		again, err := Open(ds.config())
		require.NoError(t, err)
		for p := range int32(3) {
			require.Equal(t, []string{"x"}, values(t, again, at("orders", p)))
		}
		require.NoError(t, again.Close())
		ds.requireEqualCopies(t)
	}
}

// Brokers are killed, stopped and started at random under load. The acknowledged records are there
// in order, and so are the topics that were created and not deleted.
func TestBrokersComeAndGoUnderLoad(t *testing.T) {
	rounds := 300
	if sample.Hurried() {
		rounds = 40
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	ds := newDisks(3)
	c, err := Open(ds.config())
	require.NoError(t, err)
	create(t, c, "orders", 6)
	acknowledged := make([][]string, 6)
	var topics []string
	ctx, cancel := context.WithCancel(t.Context())
	var wg, first sync.WaitGroup
	for p := range int32(6) {
		first.Add(1)
		begun := sync.OnceFunc(first.Done)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				v := fmt.Sprint(i)
				if res := tryProduce(c, at("orders", p), v); res.Err == nil {
					acknowledged[p] = append(acknowledged[p], v)
					begun()
				} else if !errors.Is(res.Err, ErrNotLeader) && !errors.Is(res.Err, partition.ErrNotLeaderAfterAppend) {
					t.Errorf("append: %v", res.Err)
				}
				if i%10 != 0 { // limits the number of topics, whose replay would take too long
					continue
				}
				if _, err := c.WaitMetadata(ctx, c.MetadataVersion()); err != nil {
					return
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			resp, err := c.Fetch(ctx, ask("orders", 6, partition.FetchRequest{MaxWait: time.Hour, MinBytes: 1 << 20}))
			for i := 0; err == nil && i < len(resp.Partitions); i++ {
				if err := resp.Partitions[i].Err; err != nil && !errors.Is(err, ErrNotLeader) {
					t.Errorf("fetch: %v", err)
				}
			}
		}
	})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprint("t", i)
			if err := c.CreateTopic(context.WithoutCancel(ctx), name, topic.Config{Partitions: 3}); err != nil {
				t.Errorf("create: %v", err)
			}
			_ = tryProduce(c, at(name, int32(i%3)), "x")
			if i%3 != 0 {
				if err := c.DeleteTopic(context.WithoutCancel(ctx), name); err != nil {
					t.Errorf("delete: %v", err)
				}
			} else if topics = append(topics, name); len(topics) > 20 {
				if err := c.DeleteTopic(context.WithoutCancel(ctx), topics[0]); err != nil {
					t.Errorf("delete: %v", err)
				}
				topics = topics[1:]
			}
		}
	})
	first.Wait()
	for range rounds {
		id := int32(rnd.IntN(3) + 1)
		var err error
		switch rnd.IntN(4) {
		case 0:
			err = c.StopBroker(t.Context(), id)
		case 1:
			err = c.KillBroker(id)
		default:
			err = c.StartBroker(t.Context(), id)
		}
		if err != nil && !isRunning(err) && !errors.Is(err, ErrBrokerDown) && !errors.Is(err, ErrLastBroker) {
			t.Errorf("%v", err)
		}
	}
	cancel()
	wg.Wait()
	_ = c.Close()
	again, err := Open(ds.config())
	require.NoError(t, err)
	for p := range int32(6) {
		rest := acknowledged[p]
		for _, v := range values(t, again, at("orders", p)) {
			if len(rest) > 0 && v == rest[0] {
				rest = rest[1:]
			}
		}
		require.Empty(t, rest, "acknowledged, and not there in this order, of %d in partition %d", len(acknowledged[p]), p)
		require.NotEmpty(t, acknowledged[p])
	}
	require.ElementsMatch(t, append(topics, "orders"), names(t, again))
	require.NoError(t, again.Close())
	ds.requireEqualCopies(t)
}
