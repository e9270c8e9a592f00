package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

func TestAnIDIsChargedAsLongAsItIsKept(t *testing.T) {
	var c, small memory.Budget
	id := strings.Repeat("i", 3000)
	m := New(id, &Config{})
	m.ChargeTo(c.NewCharge())
	states := []*txnlog.Value{{}, {State: txnlog.Ongoing}, {State: txnlog.PrepareCommit}, {State: txnlog.CompleteCommit}, nil, {}, {State: txnlog.Dead}}
	for i := range 10 {
		states[1].Partitions = append(states[1].Partitions, record.TopicPartition{Topic: "topic", Partition: int32(10 - i)})
	}
	states[2].Partitions = states[1].Partitions
	var kept []int
	for _, v := range states {
		m.Apply(txnlog.Record{ID: id, Value: v})
		kept = append(kept, c.Used())
	}
	empty, open := idBytes+3000, idBytes+3000+10*(partitionBytes+5)
	require.Equal(t, []int{empty, open, open, empty, 0, empty, 0}, kept)
	m = New("id", &Config{})
	m.ChargeTo(small.NewCharge())
	m.Apply(txnlog.Record{ID: "id", Value: &txnlog.Value{}})
	m.Apply(txnlog.Record{ID: "id", Value: &txnlog.Value{Partitions: states[1].Partitions[:2]}})
	require.Equal(t, leastIDBytes, small.Used(), "a short transaction needs nothing more")
}

func TestOnlyWhatGrowsIsRefusedWithoutMemory(t *testing.T) {
	var c memory.Budget
	m := New("id", &Config{Version: 2, MaxTimeout: time.Hour})
	m.ChargeTo(c.NewCharge())
	now, bound := time.UnixMilli(1000), memory.Bound{Bytes: 1}
	step := func(ev Event) error {
		eff := m.Step(now, ev)
		m.Accept()
		require.Len(t, eff.Replies, 1)
		return eff.Replies[0].Err
	}
	begin := EventInit{Timeout: time.Minute, ProducerID: -1, Epoch: -1, NewID: new(int64), Bound: bound, To: 1}
	unnamed := begin
	unnamed.NewID = nil
	require.ErrorIs(t, step(unnamed), ErrFull, "before a producer id is used up")
	require.ErrorIs(t, step(begin), ErrFull)
	require.True(t, m.Forgotten())
	begin.Bound.Bytes = leastIDBytes
	require.NoError(t, step(begin))
	begin.Bound = bound
	require.NoError(t, step(begin), "it has the memory")
	many := make([]record.TopicPartition, 100)
	for i := range many {
		many[i].Partition = int32(i)
	}
	add := EventAdd{Epoch: 1, Partitions: many[:1], Bound: bound, To: 1}
	require.NoError(t, step(add))
	add.Partitions = many
	require.ErrorIs(t, step(add), ErrFull)
	require.NoError(t, step(EventEnd{Epoch: 1, Commit: true, To: 1}), "and it can end")
	add.Bound = memory.Bound{}
	require.NotErrorIs(t, step(add), ErrFull, "no bound")
}
