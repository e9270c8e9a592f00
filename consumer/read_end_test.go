package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
)

func TestReadAndFollowHandOutNothingMoreWhenTheirContextHasEnded(t *testing.T) {
	bubble(t, 2, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 100)
		fill(t, cl, 1, 100)
		for _, byTime := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			n, last := 0, error(nil)
			for _, err := range consumer.Read(ctx, over(t, cl), consumer.ReadConfig{Topic: "t", ByTime: byTime}) {
				if last = err; err == nil {
					n++
				}
				if n == 3 {
					cancel()
				}
			}
			require.ErrorIs(t, last, context.Canceled, "what was read is not all there is")
			require.Equal(t, 3, n)
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range consumer.Follow(ctx, over(t, cl), consumer.ReadConfig{Topic: "t"}) {
			require.NoError(t, err)
			if n++; n == 3 {
				cancel()
			}
		}
		require.Equal(t, 3, n)
	})
}

// deafLogs is a backend whose WaitMetadata fails with err.
type deafLogs struct {
	*strata.Cluster
	err error
}

func (b *deafLogs) WaitMetadata(context.Context, int64) (int64, error) { return 0, b.err }

func TestFollowThatCannotNoticeNewPartitionsSaysSo(t *testing.T) {
	bubble(t, 1, func(t *testing.T, cl *strata.Cluster) {
		fill(t, cl, 0, 3)
		b := &deafLogs{cl, errors.New("connection lost")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last error
		for _, err := range consumer.Follow(ctx, b, consumer.ReadConfig{Topic: "t"}) {
			last = err
		}
		require.ErrorIs(t, last, b.err)
	})
}
