package partition

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// linearOp is the input of one operation of a history; value < 0 means read all from an offset.
type linearOp struct {
	value int32
	from  int64
}

type linearResult struct {
	offset int64  // of an append
	values string // of a read, four bytes each
}

// linearLog is a log from the view of clients. An append puts a value at the end. A read returns
// all values from an offset to the end.
var linearLog = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(string), input.(linearOp), output.(linearResult)
		if in.value >= 0 {
			return out.offset == int64(len(s)/4), s + fourBytes(in.value)
		}
		at := int(in.from) * 4
		return at <= len(s) && s[at:] == out.values, s
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(linearOp), output.(linearResult)
		if in.value >= 0 {
			return fmt.Sprintf("append %d -> %d", in.value, out.offset)
		}
		return fmt.Sprintf("read from %d -> %x", in.from, out.values)
	},
}

func fourBytes(v int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(v))) }

// recordHistory runs clients concurrently and returns their operations and results.
func recordHistory(t *testing.T, p *Partition, clients, steps int, look func(p *Partition, from int64) (string, error)) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			var mine []porcupine.Operation
			rnd, seq, acked := newRand(uint64(c)), int32(0), int64(0)
			for i := range steps {
				op := porcupine.Operation{ClientId: c, Call: int64(time.Since(start))}
				if rnd.IntN(3) == 0 {
					in := linearOp{value: -1, from: rnd.Int64N(acked + 1)}
					values, err := look(p, in.from)
					if err != nil {
						t.Error(err)
						return
					}
					op.Input, op.Output = in, linearResult{values: values}
				} else {
					in := linearOp{value: int32(c*steps + i)}
					batch := batchSpec{pid: int64(c + 1), seq: seq, values: []string{fourBytes(in.value)}}.build()
					res := sendBytes(p, batch, record.AcksAll)
					if again := sendBytes(p, batch, record.AcksAll); res.Err != nil || again.BaseOffset != res.BaseOffset {
						t.Errorf("%+v, retry %+v", res, again)
						return
					}
					seq++
					acked = res.BaseOffset + 1
					op.Input, op.Output = in, linearResult{offset: res.BaseOffset}
				}
				op.Return = int64(time.Since(start))
				mine = append(mine, op)
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, mine...)
		})
	}
	wg.Wait()
	return history
}

// readOnce returns the values from an offset to the high watermark of one read.
func readOnce(p *Partition, from int64) (string, error) {
	res, err := p.Read(ReadRequest{Offset: from, Isolation: ReadUncommitted, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1})
	if err != nil {
		return "", err
	}
	c := consumed{from: from, aborted: map[int64]bool{}}
	for rest := res.Bytes; len(rest) > 0; {
		b, n, err := record.Parse(rest)
		if err != nil {
			return "", err
		}
		rest = rest[n:]
		if err := c.take(b); err != nil {
			return "", err
		}
	}
	var out string
	for _, r := range c.out {
		out += r.Value
	}
	return out, nil
}

func TestAppendsAndReadsAreLinearizable(t *testing.T) {
	for _, sync := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		cfg := testConfig(vfs.Mem())
		cfg.Log.Sync = sync
		p := openLeader(t, cfg)
		history := recordHistory(t, p, 6, 80, readOnce)
		require.True(t, porcupine.CheckOperations(linearLog, history))
	}
}

// TestStaleReadsAreNotLinearizable is the counterpart: reads that miss the last record must be
// detected.
func TestStaleReadsAreNotLinearizable(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	history := recordHistory(t, p, 2, 40, func(p *Partition, from int64) (string, error) {
		s, err := readOnce(p, from)
		return s[:max(len(s)-4, 0)], err
	})
	require.False(t, porcupine.CheckOperations(linearLog, history))
}
