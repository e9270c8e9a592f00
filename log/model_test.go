package log

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// modelLog is a trivial log: all values by offset, and where batches begin.
type modelLog struct {
	start, end int64
	values     map[int64]string
	batches    map[int64]int64 // first offset by record offset
}

type modelRun struct {
	t     *testing.T
	rnd   *rand.Rand
	disk  *vfs.MemFS
	cfg   Config
	l     *Log
	m     modelLog
	trace []string
}

// TestLogAgreesWithASliceOfRecords compares a log with a trivial one after every step. STRATA_SEED
// repeats a run.
func TestLogAgreesWithASliceOfRecords(t *testing.T) {
	t.Parallel()
	if s := os.Getenv("STRATA_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		runModel(t, seed, 300)
		return
	}
	for seed := range uint64(30) {
		runModel(t, seed, 150)
	}
}

func runModel(t *testing.T, seed uint64, steps int) {
	r := &modelRun{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), disk: vfs.Mem()}
	r.m = modelLog{values: map[int64]string{}, batches: map[int64]int64{}}
	policies := []SyncPolicy{SyncOnAck, SyncNever, SyncInterval(1 << 40)}
	r.cfg = Config{FS: r.disk, SegmentBytes: int64(500 + r.rnd.IntN(5000)), Sync: policies[r.rnd.IntN(len(policies))]}
	r.cfg.IndexIntervalBytes = 1 + r.rnd.IntN(600)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %+v: %v", seed, r.cfg.Sync, r.trace)
		}
	}()
	r.open()
	for range steps {
		r.step()
		r.check()
	}
	require.NoError(t, r.l.Close())
}

func (r *modelRun) open() {
	l, err := Open("log", r.cfg)
	require.NoError(r.t, err, r.trace)
	r.l = l
}

func (r *modelRun) did(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

func (r *modelRun) step() {
	switch p := r.rnd.IntN(100); {
	case p < 60:
		r.append()
	case p < 70:
		r.did("roll")
		require.NoError(r.t, r.l.Roll(), r.trace)
	case p < 76:
		before := r.m.start + r.rnd.Int64N(r.m.end-r.m.start+1)
		r.did("delete %d", before)
		require.NoError(r.t, r.l.DeleteRecords(before), r.trace)
		r.m.start = before
	case p < 82:
		r.truncate()
	case p < 84:
		start := r.rnd.Int64N(2*r.m.end + 1)
		r.did("restart %d", start)
		require.NoError(r.t, r.l.TruncateFully(start), r.trace)
		r.m.start, r.m.end = start, start
		clear(r.m.values)
	case p < 88:
		r.did("sync")
		require.NoError(r.t, r.l.Sync(), r.trace)
		require.Equal(r.t, r.m.end, r.l.DurableOffset(), r.trace)
	case p < 94:
		r.did("reopen")
		require.NoError(r.t, r.l.Close(), r.trace)
		r.open()
		require.True(r.t, r.l.Recovery().Clean, r.trace)
	default:
		r.did("kill")
		old, disk := r.l, r.disk.Kill()
		require.NoError(r.t, old.Close())
		r.disk, r.cfg.FS = disk, disk
		r.open()
		require.Zero(r.t, r.l.Recovery().CutBytes, r.trace)
	}
}

func (r *modelRun) append() {
	var rs []record.Record
	first := r.m.end
	for range 1 + r.rnd.IntN(4) {
		v := fmt.Sprintf("%d-%x", r.m.end, make([]byte, r.rnd.IntN(60)))
		r.m.values[r.m.end], r.m.batches[r.m.end] = v, first
		r.m.end++
		rs = append(rs, record.String("", "k", v))
	}
	r.did("append %d", len(rs))
	var got int64
	var err error
	if r.rnd.IntN(2) == 0 {
		got, err = r.l.Append(r.t.Context(), rs...)
	} else {
		var b record.Builder
		for i := range rs {
			b.Append(&rs[i])
		}
		batch, buildErr := b.Build([]record.Codec{record.None, record.LZ4, record.Zstd}[r.rnd.IntN(3)])
		require.NoError(r.t, buildErr)
		kept := string(batch)
		got, err = r.l.AppendBatch(r.t.Context(), batch)
		require.Equal(r.t, kept, string(batch), "the caller's bytes were written to")
	}
	require.NoError(r.t, err, r.trace)
	require.Equal(r.t, first, got, r.trace)
}

// truncate truncates to the beginning of a batch: inside a batch the log keeps no record of it
// (TestTruncateInsideABatch).
func (r *modelRun) truncate() {
	if r.m.end == r.m.start {
		return
	}
	to := r.m.batches[r.m.start+r.rnd.Int64N(r.m.end-r.m.start)]
	r.did("truncate %d", to)
	require.NoError(r.t, r.l.TruncateTo(to), r.trace)
	for o := to; o < r.m.end; o++ {
		delete(r.m.values, o)
	}
	r.m.end, r.m.start = to, min(r.m.start, to)
}

func (r *modelRun) check() {
	require.Equal(r.t, r.m.start, r.l.StartOffset(), r.trace)
	require.Equal(r.t, r.m.end, r.l.EndOffset(), r.trace)
	require.LessOrEqual(r.t, r.l.DurableOffset(), r.m.end, r.trace)
	from := r.m.start
	if n := r.m.end - r.m.start; n > 0 && r.rnd.IntN(5) > 0 {
		from += r.rnd.Int64N(n)
	}
	next := from
	for rec, err := range r.l.Records(from) {
		require.NoError(r.t, err, r.trace)
		require.Equal(r.t, next, rec.Offset, r.trace)
		require.Equal(r.t, r.m.values[next], string(rec.Value), r.trace)
		next++
	}
	require.Equal(r.t, r.m.end, next, r.trace)
	_, err := r.l.Read(nil, r.m.end+1, 1)
	require.ErrorIs(r.t, err, ErrOffsetOutOfRange)
	if r.m.start > 0 {
		_, err = r.l.Read(nil, r.m.start-1, 1)
		require.ErrorIs(r.t, err, ErrOffsetOutOfRange)
	}
	infos := r.l.Segments()
	for i, s := range infos {
		require.Equal(r.t, i == len(infos)-1, s.Active, "exactly the last segment is active")
	}
}
