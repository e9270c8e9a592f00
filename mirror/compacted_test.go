package mirror_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// keys sends records with the given keys and growing values to partition 0 of topic "t".
func keys(t *testing.T, b producer.Backend, ks ...string) {
	t.Helper()
	p, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	for i, k := range ks {
		_, err = p.Send(t.Context(), record.String("t", k, fmt.Sprint(k, i)).To(0))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

// from returns the values of partition 0 of topic "t" from an offset on.
func from(t *testing.T, b consumer.LogBackend, offset int64) (values []string) {
	t.Helper()
	for r, err := range consumer.Read(t.Context(), b, consumer.ReadConfig{Topic: "t", Partitions: []int32{0}, Start: record.Offsets{tp(0): offset}}) {
		require.NoError(t, err)
		values = append(values, string(r.Value))
	}
	return values
}

func TestCutoverMovesGroupsOfACompactedSource(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		require.NoError(t, w.local.AlterTopic(t.Context(), "t", map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576"}))
		keys(t, w.local, "a", "b", "a", "c", "b", "a", "d", "a", "e")
		require.NoError(t, drain(t, w.local, far))
		require.NoError(t, w.local.Roll(t.Context(), "t"))
		keys(t, w.local, "f", "a")
		_, err := w.local.Clean(t.Context(), "t")
		require.NoError(t, err)
		left := from(t, w.local, 0)
		require.Equal(t, []string{"c3", "b4", "d6", "a7", "e8", "f0", "a1"}, left, "the source is compacted")
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		for offset := range int64(12) {
			id := fmt.Sprint("g", offset)
			require.NoError(t, w.local.ResetOffsets(t.Context(), id, record.Offsets{tp(0): offset}))
			res, err := f.Cutover(t.Context(), id)
			require.NoError(t, err)
			time.Sleep(time.Second)
			want, got := from(t, w.local, offset), from(t, far, res.Moved[id][tp(0)])
			require.Subset(t, got, want, "offset %d", offset)
			if len(want) > 0 {
				require.Equal(t, want[0], got[0], "offset %d", offset)
			} else {
				require.Empty(t, got)
			}
		}
		// The target is compacted, too.
		require.NoError(t, w.server.Cluster().Roll(t.Context(), "t"))
		keys(t, w.local, "g")
		require.NoError(t, drain(t, w.local, far))
		_, err = w.server.Cluster().Clean(t.Context(), "t")
		require.NoError(t, err)
		require.NoError(t, w.local.ResetOffsets(t.Context(), "h", record.Offsets{tp(0): 1}))
		res, err := f.Cutover(t.Context(), "h")
		require.NoError(t, err)
		require.Equal(t, []string{"c3", "b4", "d6", "e8", "f0", "a1", "g0"}, from(t, far, res.Moved["h"][tp(0)]), "without a7")

		foreign, err := producer.New(far, producer.Config{})
		require.NoError(t, err)
		_, err = foreign.Send(t.Context(), record.String("t", "foreign", "x").To(0))
		require.NoError(t, err)
		require.NoError(t, foreign.Close())
		require.NoError(t, w.local.ResetOffsets(t.Context(), "i", record.Offsets{tp(0): 1}))
		_, err = f.Cutover(t.Context(), "i")
		stopped(t, err, mirror.ErrDiffers)
	})
}
