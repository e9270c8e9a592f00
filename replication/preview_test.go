package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

func TestPreviewOfATopicIsWhatCleanThenDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openWith(t, Config{FS: vfs.Mem(), Dir: "data"})
		create(t, c, "orders", 2, "retention.ms", "60000", "segment.ms", "1000000")
		rep, err := c.PreviewClean(t.Context(), at("orders", 0))
		require.NoError(t, err)
		require.Empty(t, rep.Segments, "it was never written to")
		for range 3 {
			require.NoError(t, tryProduce(c, at("orders", 0), "v").Err)
			require.NoError(t, c.Roll(t.Context(), "orders"))
			time.Sleep(40 * time.Second)
		}
		want, err := c.PreviewClean(t.Context(), at("orders", 0))
		require.NoError(t, err)
		require.EqualValues(t, 2, want.StartOffset)
		got, err := c.Clean(t.Context(), "orders")
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, got[0].CleanReport, want)

		_, err = c.PreviewClean(t.Context(), at("orders", 7))
		require.ErrorIs(t, err, ErrUnknownTopic)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.PreviewClean(ctx, at("orders", 0))
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, c.Close())
		_, err = c.PreviewClean(t.Context(), at("orders", 0))
		require.ErrorIs(t, err, ErrClosed)
	})
}
