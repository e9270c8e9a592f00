package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// linearLog models a partition as its clients see it. An append puts a value at the end. A look at
// the end (value -1) returns the number of values.
var linearLog = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		end := state.(int64)
		if input.(int32) < 0 {
			return output.(int64) == end, end
		}
		return output.(int64) == end, end + 1
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%d -> %d", input, output) },
}

// linearClients append to a partition and look at its end concurrently. Each has one append under
// way, which it repeats with the same sequence until it is acknowledged.
type linearClients struct {
	c     *Cluster
	tp    tp
	ticks atomic.Int64 // the clock of the history: in a bubble many operations share one instant

	mu      sync.Mutex
	history []porcupine.Operation
	reads   [][]string
}

// run runs the client with this id.
func (l *linearClients) run(t *testing.T, id, steps int) {
	pid, epoch, err := l.c.InitProducerID(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	rnd, sequence := rand.New(rand.NewPCG(uint64(id), 1)), int32(0)
	for i := range steps {
		op := porcupine.Operation{ClientId: id, Input: int32(-1), Call: l.ticks.Add(1)}
		switch rnd.IntN(6) {
		case 0:
			op.Output = l.end(t)
		case 1:
			l.read(t)
			continue
		default:
			v := int32(id*steps + i)
			op.Input, op.Output = v, l.append(t, pid, epoch, sequence, v)
			sequence++
		}
		op.Return = l.ticks.Add(1)
		l.mu.Lock()
		l.history = append(l.history, op)
		l.mu.Unlock()
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
	}
}

func (l *linearClients) append(t *testing.T, pid int64, epoch int16, sequence, value int32) int64 {
	for {
		var b record.Builder
		b.Reset(0)
		b.SetProducer(pid, epoch, sequence)
		b.AppendKV(0, nil, []byte(fmt.Sprint(value)), nil)
		p, err := b.Build(record.None)
		if err != nil {
			t.Error(err)
			return -1
		}
		done := make(chan partition.ProduceResult, 1)
		l.c.Produce(&partition.ProduceRequest{TopicPartition: l.tp, Batch: p, Acks: record.AcksAll, Timeout: time.Second, Done: func(r partition.ProduceResult) { done <- r }})
		res := <-done
		if res.Err == nil {
			return res.BaseOffset
		}
		if errors.Is(res.Err, partition.ErrOutOfOrderSequence) {
			t.Errorf("an acknowledged record is gone: %v", res.Err)
			return -1
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *linearClients) end(t *testing.T) int64 {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		got, err := l.c.ListOffsets(ctx, map[tp]partition.OffsetSpec{l.tp: partition.Latest}, partition.ReadUncommitted)
		cancel()
		if err == nil && got[l.tp].Err == nil {
			return got[l.tp].Offset
		}
		time.Sleep(time.Millisecond)
	}
}

// read reads the partition from its beginning. A leader that was just elected may show fewer
// records than its predecessor, but never other ones.
func (l *linearClients) read(t *testing.T) {
	vs, err := tryValues(t.Context(), l.c, l.tp)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads = append(l.reads, vs)
}

// trouble breaks and mends paths and brokers until ctx ends, then mends all of them.
func (l *linearClients) trouble(ctx context.Context, t *testing.T, seed uint64) {
	rnd, down := rand.New(rand.NewPCG(seed, 2)), int32(0)
	path := func() NetworkPath { return NetworkPath{From: rnd.Int32N(3) + 1, To: rnd.Int32N(3) + 1} }
	uncancelled := context.WithoutCancel(ctx)
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for ctx.Err() == nil {
		id := rnd.Int32N(3) + 1
		switch act := rnd.IntN(6); {
		case act == 0:
			l.c.Network().Cut(path())
		case act <= 2:
			l.c.Network().Mend(path())
		case act == 3: // may be refused
			_ = l.c.TransferLeader(ctx, l.tp, id)
		case down != 0:
			must(l.c.StartBroker(uncancelled, down))
			down = 0
		case act == 4:
			must(l.c.KillBroker(id))
			down = id
		default:
			must(l.c.StopBroker(uncancelled, id))
			down = id
		}
		time.Sleep(time.Duration(rnd.IntN(25)) * time.Millisecond)
	}
	for i := range int32(9) {
		l.c.Network().Mend(NetworkPath{From: i/3 + 1, To: i%3 + 1})
	}
	if down != 0 {
		must(l.c.StartBroker(uncancelled, down))
	}
}

// Clients append, look at the end and read. Meanwhile brokers are killed, stopped and cut off from
// each other, and leadership moves. Appends take effect one after the other, each once, between
// their call and their acknowledgement. The end is never behind an acknowledged append. All values
// read are a prefix of the final contents. The order of events is not seeded: a seed chooses only
// the actions.
func TestAppendsAreLinearizableWhileLeadersChange(t *testing.T) {
	rounds := 40
	switch {
	case sample.Hurried():
		rounds = 5
	case os.Getenv("STRATA_LONG") != "":
		rounds = 4000
	}
	elections := 0
	for seed := range uint64(rounds) {
		l := &linearClients{tp: at("orders", 0)}
		var final []string
		synctest.Test(t, func(t *testing.T) {
			l.c, _ = openThree(t)
			replicated(t, l.c, "orders", 1)
			ctx, cancel := context.WithCancel(t.Context())
			var clients, troubles sync.WaitGroup
			troubles.Go(func() { l.trouble(ctx, t, seed) })
			for id := range 5 {
				clients.Go(func() { l.run(t, id, 40) })
			}
			clients.Wait()
			cancel()
			troubles.Wait()
			inSync(t, l.c, l.tp, 3)
			require.NoError(t, all(l.c, l.tp, "last").Err) // makes all earlier records readable
			final = values(t, l.c, l.tp)
			elections += int(l.c.Status("orders", 0).LeaderEpoch)
		})
		require.True(t, porcupine.CheckOperations(linearLog, l.history), "seed %d", seed)
		for _, op := range l.history {
			if v := op.Input.(int32); v >= 0 {
				require.Equal(t, fmt.Sprint(v), final[op.Output.(int64)], "seed %d", seed)
			}
		}
		for _, read := range l.reads {
			require.LessOrEqual(t, len(read), len(final), "seed %d", seed)
			require.True(t, slices.Equal(final[:len(read)], read), "seed %d", seed)
		}
	}
	require.Greater(t, elections, 5*rounds, "leaders hardly changed")
	t.Logf("%d elections", elections)
}
