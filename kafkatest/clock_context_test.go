package kafkatest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// usesContexts names the variable of the process in which TestContextsFromOutsideEndNoProcess uses
// contexts. A cancelled context that must not have been used ends the process without a failed
// test.
const usesContexts = "KAFKATEST_CLOCK_CONTEXTS"

// Tests use the contexts at hand, which are their own. The code that is easiest to write works,
// and the most likely mistakes do no harm.
func TestContextsFromOutsideEndNoProcess(t *testing.T) {
	if os.Getenv(usesContexts) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.timeout=1m", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), usesContexts+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: "+t.Name()+"/cancelled_later")
		return
	}
	s := New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}})
	use := func(ctx context.Context, c *strata.Cluster) {
		require.NoError(t, ctx.Err())
		select {
		case <-ctx.Done():
		default:
		}
		shorter, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		require.NoError(t, shorter.Err())
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(shorter, record.String("orders", "", "paid"))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		_, err = c.Metadata(ctx, "orders")
		require.NoError(t, err)
		require.NoError(t, s.WaitUntil(ctx, func() bool { return true }))
	}
	t.Run("of another test", func(t *testing.T) {
		s.Inside(t.Context(), func(_ context.Context, c *strata.Cluster) { use(t.Context(), c) })
	})
	t.Run("cancelled later", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s.Inside(ctx, func(inner context.Context, c *strata.Cluster) { use(ctx, c); use(inner, c) })
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		s.Inside(ctx, func(context.Context, *strata.Cluster) { <-ctx.Done() })
	})
	s.Inside(context.Background(), func(_ context.Context, c *strata.Cluster) { use(t.Context(), c) })
}

// Inside calls its function with the caller's context, as far as a bubble allows it.
func TestInsideHasTheContextOfItsCaller(t *testing.T) {
	type key struct{}
	for name, cfg := range networksAndClocks {
		t.Run(name, func(t *testing.T) {
			cfg.WaitTimeout = 20 * time.Millisecond
			s := New(t, cfg)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "a value"))
			s.Inside(ctx, func(inner context.Context, _ *strata.Cluster) {
				require.Equal(t, "a value", inner.Value(key{}))
				require.NoError(t, inner.Err())
				<-inner.Done()
				require.ErrorIs(t, inner.Err(), context.DeadlineExceeded, "after Config.WaitTimeout")
				s.Inside(inner, func(again context.Context, _ *strata.Cluster) {
					<-again.Done()
					require.Equal(t, "a value", again.Value(key{}))
				})
			})
			cfg.WaitTimeout = time.Minute
			s = New(t, cfg)
			entered := make(chan struct{})
			go func() {
				<-entered
				cancel()
			}()
			s.Inside(ctx, func(inner context.Context, _ *strata.Cluster) {
				close(entered)
				<-inner.Done()
				require.ErrorIs(t, inner.Err(), context.Canceled)
			})
			s.Inside(ctx, func(inner context.Context, _ *strata.Cluster) {
				require.ErrorIs(t, inner.Err(), context.Canceled)
			})
		})
	}
}
