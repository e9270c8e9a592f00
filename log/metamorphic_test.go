package log

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// An op is one step of a sequence. Its effect depends only on itself and the steps before.
type op struct {
	kind    string
	records []record.Record // append
	offset  int64           // delete, truncate, read
	n       int             // read: records
	ts      int64           // time
}

// A variant is a configuration of a log. The records that a reader gets must not depend on it.
type variant struct {
	segmentBytes    int64
	interval, index int
	sync            SyncPolicy
	codec           record.Codec
	tail            bool // readers at the end read from memory
}

var plainVariant = variant{1 << 20, 4096, 10 << 20, SyncOnAck, record.None, false}

func randomVariant(rnd *rand.Rand) variant {
	return variant{
		segmentBytes: int64(4000 + rnd.IntN(20_000)),
		interval:     1 + rnd.IntN(3000),
		index:        200 + rnd.IntN(2000),
		sync:         []SyncPolicy{SyncOnAck, SyncNever, SyncInterval(1 << 40)}[rnd.IntN(3)],
		codec:        []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}[rnd.IntN(5)],
		tail:         rnd.IntN(2) == 0,
	}
}

// randomOps returns a sequence of steps. It tracks where batches begin.
func randomOps(rnd *rand.Rand, steps int) (ops []op) {
	var start, end, ts int64
	var begins []int64 // of batches that are still there
	for range steps {
		switch p := rnd.IntN(100); {
		case p < 50:
			o := op{kind: "append"}
			for range 1 + rnd.IntN(8) {
				ts += int64(rnd.IntN(20)) - 5
				r := record.Record{Key: fmt.Appendf(nil, "k%d", rnd.IntN(15)), Timestamp: time.UnixMilli(1_000_000 + ts)}
				if rnd.IntN(8) > 0 {
					r.Value = fmt.Appendf(nil, "%d-%s", end, strings.Repeat("v", rnd.IntN(200)))
				}
				for i := range rnd.IntN(3) {
					r.Headers = append(r.Headers, record.Header{Key: fmt.Sprint("h", i), Value: []byte{byte(end)}})
				}
				o.records = append(o.records, r)
			}
			begins = append(begins, end)
			end += int64(len(o.records))
			ops = append(ops, o)
		case p < 55 && end > start:
			start += rnd.Int64N(end - start + 1)
			ops = append(ops, op{kind: "delete", offset: start})
		case p < 60 && len(begins) > 0 && begins[len(begins)-1] >= start:
			i := len(begins) - 1 - rnd.IntN(min(len(begins), 4))
			if begins[i] < start {
				continue
			}
			end = begins[i]
			begins = begins[:i]
			ops = append(ops, op{kind: "truncate", offset: end})
		case p < 64:
			ops = append(ops, op{kind: "reopen"})
		case p < 68:
			ops = append(ops, op{kind: "kill"})
		case p < 72:
			ops = append(ops, op{kind: "roll"})
		case p < 80:
			ops = append(ops, op{kind: "time", ts: 1_000_000 + ts - int64(rnd.IntN(500))})
		default:
			ops = append(ops, op{kind: "read", offset: start + rnd.Int64N(end-start+1), n: 1 + rnd.IntN(60)})
		}
	}
	return append(ops, op{kind: "read", offset: start, n: 1 << 30}, op{kind: "compact"}, op{kind: "read", offset: start, n: 1 << 30})
}

// keptLog is a log of one variant.
type keptLog struct {
	t    *testing.T
	v    variant
	disk *vfs.MemFS
	l    *Log
	d    *Directory
}

func (k *keptLog) open() {
	tail := int64(-1)
	if k.v.tail {
		tail = 1 << 20
	}
	var err error
	k.d, err = OpenDirectory("data", DirectoryConfig{FS: k.disk, TailBytes: tail})
	require.NoError(k.t, err)
	k.l, err = Open("data/t-0", Config{Dir: k.d, SegmentBytes: k.v.segmentBytes, Sync: k.v.sync, MinDirtyRatio: 1e-9,
		IndexIntervalBytes: k.v.interval, IndexBytes: k.v.index})
	require.NoError(k.t, err)
}

func (k *keptLog) close() {
	require.NoError(k.t, k.l.Close())
	require.NoError(k.t, k.d.Close())
}

// do runs a step and returns its visible result.
func (k *keptLog) do(o op) string {
	t, l := k.t, k.l
	switch o.kind {
	case "append":
		var b record.Builder
		for i := range o.records {
			require.True(t, b.Append(&o.records[i]))
		}
		p, err := b.Build(k.v.codec)
		require.NoError(t, err)
		first, err := l.AppendBatch(t.Context(), p)
		require.NoError(t, err)
		return fmt.Sprint("at ", first)
	case "delete":
		require.NoError(t, l.DeleteRecords(o.offset))
	case "truncate":
		require.NoError(t, l.TruncateTo(o.offset))
	case "roll":
		require.NoError(t, l.Roll())
	case "reopen":
		k.close()
		k.open()
	case "kill":
		disk := k.disk.Kill()
		k.close()
		k.disk = disk
		k.open()
	case "compact": // all records: closed and durable
		cfg := *l.cfg.Load()
		cfg.Cleanup = CleanupCompact
		require.NoError(t, l.Reconfigure(cfg))
		require.NoError(t, l.Roll())
		require.NoError(t, l.Sync())
		_, err := l.Clean(t.Context())
		require.NoError(t, err)
	case "time":
		offset, ts, err := l.OffsetForTimestamp(time.UnixMilli(o.ts))
		require.NoError(t, err)
		newest, newestTs, err := l.MaxTimestampOffset()
		require.NoError(t, err)
		return fmt.Sprint(offset, ts, newest, newestTs)
	case "read":
		return k.read(o.offset, o.n)
	}
	return fmt.Sprint(k.l.StartOffset(), k.l.EndOffset())
}

func (k *keptLog) read(from int64, n int) string {
	var b strings.Builder
	for r, err := range k.l.Records(from) {
		require.NoError(k.t, err)
		fmt.Fprintf(&b, "%d %d %s %s %v\n", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers)
		if n--; n == 0 {
			break
		}
	}
	return b.String()
}

// The same steps give the same results on logs that differ only in settings that readers must not
// notice. STRATA_EXPLORE: 1,000 sequences.
func TestWhatIsReadDoesNotDependOnHowItIsKept(t *testing.T) {
	t.Parallel()
	sequences := sampled(50, 10)
	if os.Getenv("STRATA_EXPLORE") != "" {
		sequences = 1000
	}
	compacted := 0
	for seed := range uint64(sequences) {
		rnd := rand.New(rand.NewPCG(seed, 10))
		ops := randomOps(rnd, 120)
		want := make([]string, len(ops))
		for i, v := range []variant{plainVariant, randomVariant(rnd), randomVariant(rnd), randomVariant(rnd)} {
			k := &keptLog{t: t, v: v, disk: vfs.Mem()}
			k.open()
			for j, o := range ops {
				got := k.do(o)
				if i == 0 {
					want[j] = got
					continue
				}
				require.Equal(t, want[j], got, "sequence %d, step %d (%s %d), variant %+v", seed, j, o.kind, o.offset, v)
			}
			k.close()
		}
		if n := len(want); len(want[n-1]) < len(want[n-3]) {
			compacted++
		}
	}
	require.Greater(t, compacted, sequences/2, "compaction removes something in most of them")
}
