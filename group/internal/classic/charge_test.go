package classic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

func TestOffsetsAreChargedAsLongAsTheyAreKept(t *testing.T) {
	var c memory.Budget
	g := NewCommitted("g")
	g.ChargeTo(c.NewCharge())
	tp := func(p int32) record.TopicPartition { return record.TopicPartition{Topic: "t", Partition: p} }
	rec := func(p int32, metadata int) offsets.Record {
		return offsets.Record{Key: g.key(tp(p)), Offset: &offsets.OffsetValue{Metadata: strings.Repeat("m", metadata)}}
	}
	gone := func(p int32) offsets.Record { return offsets.Record{Key: g.key(tp(p))} }
	check := func() {
		t.Helper()
		want := 0
		for tp, v := range g.offsets {
			want += bytesOf(tp, v.Metadata)
		}
		for _, txn := range g.txns {
			for tp, p := range txn {
				want += bytesOf(tp, p.value.Metadata)
			}
		}
		if want > 0 {
			want += groupOffsetsBytes + len(g.id)
		}
		require.Equal(t, want, c.Used())
	}
	for _, step := range []func(){
		func() { g.Apply(rec(0, 10)) },
		func() { g.Apply(rec(0, 1000)) },
		func() { g.Apply(rec(0, 500)) },
		func() { g.Apply(rec(1, 300)) },
		func() { g.ApplyPending(1, rec(0, 400)) },
		func() { g.ApplyPending(1, rec(0, 600)) },
		func() { g.ApplyPending(1, rec(2, 700)) },
		func() { g.ApplyPending(2, rec(2, 800)) },
		func() { g.ApplyPending(3, rec(1, 900)) },
		func() { g.Apply(rec(2, 200)) }, // overwrites pending offsets
		func() { g.ApplyEnd(1, true) },
		func() { g.ApplyEnd(3, false) },
		func() { g.Apply(gone(2)) }, // drops a pending offset
		func() { g.ApplyEnd(2, true) },
		func() { g.Apply(gone(0)) },
		func() { g.Apply(gone(0)) },
		func() { g.Apply(gone(1)) },
	} {
		step()
		check()
	}
	require.Zero(t, c.Used())
	require.True(t, g.None())
}

func TestOffsetsOfTheSamePartitionsNeedNoMemory(t *testing.T) {
	var c memory.Budget
	g := NewCommitted("g")
	g.ChargeTo(c.NewCharge())
	tp := record.TopicPartition{Topic: "t"}
	v := &offsets.OffsetValue{Metadata: strings.Repeat("m", 100)}
	g.Apply(offsets.Record{Key: g.key(tp), Offset: v})
	room := -1
	grow := func(metadata int, in *machine.Producer) error {
		r := &protocol.CommitRequest{Offsets: map[record.TopicPartition]record.Committed{tp: {Metadata: strings.Repeat("m", metadata)}}}
		_, err := g.grow(0, memory.Bound{Bytes: room + c.Used()}, r, tp, in)
		return err
	}
	one, other := &machine.Producer{ID: 1}, &machine.Producer{ID: 2}
	require.NoError(t, grow(100, nil))
	require.NoError(t, grow(100, one))
	require.ErrorIs(t, grow(101, nil), protocol.ErrOffsetsFull)
	room = 1
	require.NoError(t, grow(101, nil))
	room = -1
	g.ApplyPending(1, offsets.Record{Key: g.key(tp), Offset: v})
	require.NoError(t, grow(100, one), "again in its transaction")
	require.ErrorIs(t, grow(100, other), protocol.ErrOffsetsFull, "many transactions keep many offsets")
	g.ApplyEnd(1, false)
	require.NoError(t, grow(100, other))
}
