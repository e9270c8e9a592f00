package producer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func TestFullBufferHoldsBackUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Second} }
		p := newProducer(t, f, Config{MaxBufferedBytes: 1000, MaxBlock: 3 * time.Second, Linger: time.Hour, DeliveryTimeout: 2 * time.Hour})
		big := record.String("a", "", strings.Repeat("x", 600))
		p.SendAsync(t.Context(), big, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := p.Send(ctx, big)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 10*time.Millisecond, time.Since(start))

		p.SendAsync(t.Context(), big, nil)
		require.Equal(t, time.Second, time.Since(start), "the lingering batch was hurried, and made room when it was settled")
		require.LessOrEqual(t, p.Stats().BufferedBytes, int64(1000))

		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Hour} }
		_, err = p.Send(t.Context(), big)
		require.ErrorIs(t, err, ErrTimeout)
		require.Equal(t, 4*time.Second, time.Since(start))
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestBlockedSendersGetRoomInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Millisecond} }
		p := newProducer(t, f, Config{MaxBufferedBytes: 100})
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				_, err := p.Send(t.Context(), value("a", i))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Len(t, f.values("a", 0), 200)
		require.Zero(t, p.Stats().BufferedBytes)
		require.NoError(t, p.Close())
	})
}
