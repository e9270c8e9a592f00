package mirror_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// tail returns the records of a partition of topic "t" from an offset on.
func tail(t *testing.T, b consumer.LogBackend, p int32, from int64) (rows []row) {
	t.Helper()
	for r, err := range consumer.Read(t.Context(), b, consumer.ReadConfig{Topic: "t", Partitions: []int32{p}, Start: record.Offsets{tp(p): from}}) {
		require.NoError(t, err)
		rows = append(rows, row{key: string(r.Key), value: string(r.Value), time: r.Timestamp.UnixMilli()})
	}
	return rows
}

// A group at any offset continues with the same record, also among aborted transactions.
func TestCutoverMovesGroupsToTheSameRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far, fd, rnd := w.dial(), newFeeder(t, w.local), rand.New(rand.NewPCG(rand.Uint64(), 0))
		require.NoError(t, w.local.AlterTopic(t.Context(), "t", map[string]string{"retention.ms": "-1"}))
		for range 6 {
			fd.feed(t, rnd.IntN(3), 1+rnd.IntN(20))
			require.NoError(t, drain(t, w.local, far))
		}
		info, err := w.local.Topic(t.Context(), "t")
		require.NoError(t, err)
		var ids []string
		at := map[string]record.Offsets{}
		for _, p := range info.Partitions {
			for offset := int64(0); offset <= p.HighWatermark; offset++ {
				id := fmt.Sprint(p.Partition, "-", offset)
				ids, at[id] = append(ids, id), record.Offsets{tp(p.Partition): offset}
				require.NoError(t, w.local.ResetOffsets(t.Context(), id, at[id]))
			}
		}
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		moved, err := f.Cutover(t.Context(), ids...)
		require.NoError(t, err)
		for _, id := range ids {
			for tp, from := range at[id] {
				to, ok := moved.Moved[id][tp]
				require.True(t, ok)
				require.Equal(t, tail(t, w.local, tp.Partition, from), tail(t, far, tp.Partition, to), "group %s moved to %d", id, to)
			}
			committed, err := far.FetchOffsets(t.Context(), id, []record.TopicPartition{tp(0), tp(1), tp(2)})
			require.NoError(t, err)
			for tp, c := range committed {
				if c.Offset >= 0 {
					require.Equal(t, moved.Moved[id][tp], c.Offset)
				}
			}
		}
		again, err := f.Cutover(t.Context(), ids...)
		require.NoError(t, err)
		require.Equal(t, moved, again, "it can be repeated")
	})
}

func TestCutoverRefusesGroupsThatItCannotMoveExactly(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far, ctx := w.dial(), t.Context()
		fill(t, w.local, 0, 30)
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		cutover := func() error {
			_, err := f.Cutover(ctx, "g")
			return err
		}
		untouched := func() {
			t.Helper()
			_, err := far.Group(ctx, "g")
			require.ErrorIs(t, err, group.ErrGroupNotFound)
		}
		require.ErrorIs(t, cutover(), group.ErrGroupNotFound)
		_, err := f.Cutover(ctx)
		var bad *topic.ConfigError
		require.ErrorAs(t, err, &bad)

		m, err := consumer.New(w.local, consumer.Config{Group: "g", Topics: []string{"t"}})
		require.NoError(t, err)
		_, err = m.Poll(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, cutover(), mirror.ErrGroupBusy)
		require.NoError(t, m.Close())
		require.NoError(t, w.local.ResetOffsets(ctx, "g", record.Offsets{tp(0): 8, tp(1): 9, tp(2): 10}))

		p, err := producer.New(w.local, producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, numbered(30, 3)...))
		time.Sleep(time.Second)
		stopped(t, cutover(), mirror.ErrStillWritten)
		require.NoError(t, tx.Abort(ctx))
		require.NoError(t, p.Close())
		time.Sleep(time.Second)
		untouched()

		require.NoError(t, far.ResetOffsets(ctx, "g", record.Offsets{tp(0): 1}))
		require.ErrorIs(t, cutover(), mirror.ErrGroupHasOffsets)
		require.NoError(t, far.DeleteGroup(ctx, "g"))

		_, err = w.local.DeleteRecords(ctx, map[record.TopicPartition]int64{tp(0): 9})
		require.NoError(t, err)
		stopped(t, cutover(), mirror.ErrGap)
		require.NoError(t, w.local.ResetOffsets(ctx, "g", record.Offsets{tp(0): 9}))
		untouched()

		foreign, err := producer.New(far, producer.Config{})
		require.NoError(t, err)
		_, err = foreign.Send(ctx, record.String("t", "foreign", "").To(1))
		require.NoError(t, err)
		require.NoError(t, foreign.Close())
		stopped(t, cutover(), mirror.ErrDiffers)
		untouched()
	})
}

func TestCutoverNamesOffsetsOfTopicsThatAreNotForwarded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far, ctx := w.dial(), t.Context()
		fill(t, w.local, 0, 30)
		require.NoError(t, w.local.CreateTopic(ctx, "other", topic.Config{Partitions: 2}))
		other := record.TopicPartition{Topic: "other", Partition: 1}
		require.NoError(t, w.local.ResetOffsets(ctx, "g", record.Offsets{tp(0): 8, other: 0}))
		require.NoError(t, w.local.ResetOffsets(ctx, "h", record.Offsets{tp(0): 8}))
		res, err := forward(t, w.local, far, mirror.ForwardConfig{}).Cutover(ctx, "g", "h")
		require.NoError(t, err)
		require.Equal(t, map[string]record.Offsets{"g": {other: 0}}, res.NotForwarded)
		require.Len(t, res.Moved["g"], 1)
		_, moved := res.Moved["g"][tp(0)]
		require.True(t, moved)
	})
}

func TestCutoverRefusesAGroupThatIsFarBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		to, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, to.Close()) }()
		p, err := producer.New(w.local, producer.Config{})
		require.NoError(t, err)
		for range mirror.MaxTranslated + 1 {
			p.SendAsync(t.Context(), record.String("t", "", "x").To(0), nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		require.NoError(t, p.Close())
		f := forward(t, w.local, to, mirror.ForwardConfig{})
		for from, want := range []error{mirror.ErrTooFarBehind, nil} {
			require.NoError(t, w.local.ResetOffsets(t.Context(), "g", record.Offsets{tp(0): int64(from)}))
			_, err = f.Cutover(t.Context(), "g")
			require.ErrorIs(t, err, want)
		}
	})
}
