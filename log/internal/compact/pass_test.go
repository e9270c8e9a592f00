package compact

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A compactBed is a directory of segments that are compacted without a log around them.
type compactBed struct {
	t     testing.TB
	fs    *vfs.MemFS
	c     Pass
	build record.Builder
}

const bedDir = "/log"

func newCompactBed(t testing.TB) *compactBed {
	b := &compactBed{t: t, fs: vfs.Mem()}
	require.NoError(t, b.fs.MkdirAll(bedDir, 0o755))
	require.NoError(t, b.fs.SyncDir("/"))
	b.c = Pass{
		FS: b.fs, Dir: bedDir, Segment: segment.Config{FS: b.fs, IndexIntervalBytes: 200}, FirstDirty: -1, Stable: math.MaxInt64, PurgeBelow: math.MaxInt64, Now: 1_000_000,
		Limits: Limits{SegmentBytes: 1 << 20, MinDirtyRatio: 0.01, DeleteRetention: 1000, MapBytes: 128 << 20},
	}
	b.c.Newest = func(s *segment.Segment) (int64, error) { ts, _, err := s.MaxTimestamp(); return ts, err }
	b.c.Replace = func(r *Result) error {
		s, err := r.Install((*segment.Segment).Remove)
		if err != nil {
			return err
		}
		i := slices.Index(b.c.Segments, r.Sources[0])
		b.c.Segments = slices.Replace(slices.Clone(b.c.Segments), i, i+len(r.Sources), s)
		return nil
	}
	b.roll(0)
	return b
}

func (b *compactBed) active() *segment.Segment { return b.c.Segments[len(b.c.Segments)-1] }

// roll closes the active segment. skip is the number of offsets to leave out.
func (b *compactBed) roll(skip int64) {
	base := int64(0)
	if len(b.c.Segments) > 0 {
		require.NoError(b.t, b.active().Seal())
		base = b.active().NextOffset() + skip
	}
	s, err := segment.Create(bedDir, base, b.c.Segment)
	require.NoError(b.t, err)
	require.NoError(b.t, b.fs.SyncDir(bedDir))
	b.c.Segments = append(b.c.Segments, s)
}

func (b *compactBed) append(p []byte) {
	h, err := record.ParseHeader(p)
	require.NoError(b.t, err)
	require.NoError(b.t, b.active().Append([][]byte{p}, []segment.BatchInfo{segment.InfoOf(&h)}))
}

// put appends one batch; kv is "key=value", "key" for a tombstone, "=value" for a record without a
// key.
func (b *compactBed) put(codec record.Codec, kv ...string) {
	b.build.SetBaseOffset(b.active().NextOffset())
	b.fill(codec, kv...)
}

// putTxn is put as part of a transaction.
func (b *compactBed) putTxn(id int64, sequence int32, kv ...string) {
	b.build.SetBaseOffset(b.active().NextOffset())
	b.build.SetProducer(id, 0, sequence)
	b.build.SetTransactional(true)
	b.fill(record.None, kv...)
}

func (b *compactBed) fill(codec record.Codec, kv ...string) {
	for _, s := range kv {
		k, v, ok := strings.Cut(s, "=")
		var key, value []byte
		if k != "" {
			key = []byte(k)
		}
		if ok {
			value = []byte(v)
		}
		b.build.AppendKV(b.c.Now-500+b.active().NextOffset(), key, value, nil)
	}
	p, err := b.build.Build(codec)
	require.NoError(b.t, err)
	b.append(p)
}

// end appends a marker, and the index entry of an aborted transaction.
func (b *compactBed) end(id int64, kind record.ControlType, first int64) {
	offset := b.active().NextOffset()
	b.append(record.ControlBatch(nil, kind, 0, record.ControlInfo{BaseOffset: offset, TimestampMs: b.c.Now, ProducerID: id}))
	if kind == record.ControlAbort {
		require.NoError(b.t, b.active().AppendAborted(segment.AbortedTxn{ProducerID: id, FirstOffset: first, LastOffset: offset, LastStableOffset: offset + 1}))
	}
}

func (b *compactBed) compact() Report {
	b.c.aborted = nil // a pass of its own
	rep, err := b.c.Run(context.Background())
	require.NoError(b.t, err)
	b.c.FirstDirty = rep.End
	return rep
}

// dump lists records as "offset:key=value", markers as "offset:!", empty batches as "base-last",
// with | between segments.
func (b *compactBed) dump() string { return dumpSegments(b.t, b.c.Segments) }

func dumpSegments(t testing.TB, segments []*segment.Segment) string {
	var out []string
	next := int64(0)
	for i, s := range segments {
		if i > 0 {
			out = append(out, "|")
		}
		for batch, err := range s.Batches(s.Base()) {
			require.NoError(t, err)
			require.GreaterOrEqual(t, batch.BaseOffset, next, "offsets go back")
			next = batch.NextOffset()
			if batch.RecordCount == 0 {
				out = append(out, fmt.Sprintf("%d-%d", batch.BaseOffset, batch.LastOffset()))
			}
			for r, err := range batch.All() {
				require.NoError(t, err)
				switch {
				case batch.IsControl():
					out = append(out, fmt.Sprintf("%d:!", r.Offset))
				case r.Value == nil:
					out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Key))
				default:
					out = append(out, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
				}
			}
		}
	}
	return strings.Join(out, " ")
}

func TestOnlyTheLastRecordOfEachKeyStays(t *testing.T) {
	t.Parallel()
	for codec := record.None; codec <= record.Zstd; codec++ {
		b := newCompactBed(t)
		b.put(codec, "a=1", "b=1", "c=1")
		b.put(codec, "a=2")
		b.roll(0)
		b.put(codec, "c=2", "b=2", "b=3")
		b.roll(0)
		b.put(codec, "a=3")
		rep := b.compact()
		require.Empty(t, rep.Skipped)
		require.Equal(t, "3:a=2 4:c=2 6:b=3 | 7:a=3", b.dump(), "the active segment is left alone")
		require.EqualValues(t, 7, rep.End)
		require.EqualValues(t, 7, rep.RecordsBefore)
		require.EqualValues(t, 3, rep.RecordsAfter)
		require.Equal(t, 2, rep.SegmentsBefore)
		require.Equal(t, 1, rep.SegmentsAfter)
		require.Less(t, rep.BytesAfter, rep.BytesBefore)

		require.NotEmpty(t, b.compact().Skipped, "nothing new")
		b.roll(0)
		require.Empty(t, b.compact().Skipped)
		require.Equal(t, "4:c=2 6:b=3 7:a=3 |", b.dump())
	}
}

func TestRecordsWithoutAKeyGo(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "=1", "a=1", "=2")
	b.put(record.None, "=3")
	b.roll(0)
	b.compact()
	require.Equal(t, "1:a=1 3-3 |", b.dump(), "the last batch stays as a header: its offset is not given again")
}

func TestTombstoneStaysForItsTimeAndThenGoes(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "a=1", "b=1")
	b.put(record.None, "a")
	b.roll(0)
	b.compact()
	require.Equal(t, "1:b=1 2:a |", b.dump())

	pass := func(after int64) string {
		b.c.Now += after
		b.put(record.None, "x=1")
		b.roll(0)
		b.compact()
		return b.dump()
	}
	require.Equal(t, "1:b=1 2:a 3:x=1 |", pass(999), "the horizon was set in the first pass")
	require.Equal(t, "1:b=1 4:x=1 |", pass(1), "reached")
}

func TestAbortedRecordsAndFinishedMarkersGo(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "a=1", "b=1")
	b.putTxn(1, 0, "a=no", "c=no")
	b.putTxn(2, 0, "b=2")
	b.end(1, record.ControlAbort, 2)
	b.end(2, record.ControlCommit, 4)
	b.put(record.None, "z=1")
	b.roll(0)
	b.compact()
	require.Equal(t, "0:a=1 4:b=2 5:! 6:! 7:z=1 |", b.dump())
	aborted, _, err := b.c.Segments[0].Aborted(0, 100)
	require.NoError(t, err)
	require.Len(t, aborted, 1, "the entry stays as long as a pass reads records of the transaction")

	b.put(record.None, "b=3")
	b.roll(0)
	b.compact()
	require.Equal(t, "0:a=1 5:! 6:! 7:z=1 8:b=3 |", b.dump())
	aborted, _, err = b.c.Segments[0].Aborted(0, 100)
	require.NoError(t, err)
	require.Empty(t, aborted)

	b.c.Now += 1000
	b.put(record.None, "y=1")
	b.roll(0)
	b.compact()
	require.Equal(t, "0:a=1 6:! 7:z=1 8:b=3 9:y=1 |", b.dump(), "the abort marker got its horizon one pass before: its data went first")
	b.c.Now += 1000
	b.put(record.None, "y=2")
	b.roll(0)
	b.compact()
	require.Equal(t, "0:a=1 7:z=1 8:b=3 10:y=2 |", b.dump())
}

func TestLastBatchOfALiveProducerStaysAsAHeader(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.putTxn(1, 5, "a=1", "b=1")
	b.end(1, record.ControlCommit, 0)
	b.put(record.None, "a=2", "b=2")
	b.roll(0)
	b.c.LastOf = func(id int64) (ProducerLast, bool) { return ProducerLast{Offset: 1}, id == 1 }
	b.compact()
	require.Equal(t, "0-1 2:! 3:a=2 4:b=2 |", b.dump())
	for batch, err := range b.c.Segments[0].Batches(0) {
		require.NoError(t, err)
		require.EqualValues(t, 6, batch.LastSequence())
		break
	}

	b.c.Now += 5000
	b.c.LastOf = func(id int64) (ProducerLast, bool) { return ProducerLast{Offset: -1, Epoch: 0}, id == 1 }
	for range 3 { // the header is removed, the marker gets its horizon, the marker reaches it
		b.put(record.None, "z=1")
		b.roll(0)
		b.compact()
		b.c.Now += 5000
	}
	require.Equal(t, "2-2 3:a=2 4:b=2 7:z=1 |", b.dump(), "without data the marker of its epoch is the trace")
}

func TestDirtyRatioAndLagsDecideWhetherToCompact(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	require.NotEmpty(t, b.compact().Skipped, "only an active segment")
	for range 3 {
		b.put(record.None, "a=1")
		b.roll(0)
	}
	b.c.FirstDirty = 2 // two of three are clean
	b.c.Limits.MinDirtyRatio = 0.5
	rep := b.compact()
	require.Contains(t, rep.Skipped, "0.33")
	require.InDelta(t, 0.33, rep.DirtyRatio, 0.01)

	b.c.FirstDirty = 2
	b.c.Limits.MaxLag = 100
	require.Empty(t, b.compact().Skipped, "overdue")

	b.put(record.None, "a=2")
	b.roll(0)
	b.c.Limits.MinLag = 1000
	rep = b.compact()
	require.NotEmpty(t, rep.Skipped, "too young")
	require.EqualValues(t, 3, rep.FirstUncleanable)
	b.c.Now += 2000
	require.Empty(t, b.compact().Skipped)
}

func TestNothingAboveTheStableOffsetIsTouched(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	for range 4 {
		b.put(record.None, "a=1", "a=2")
		b.roll(0)
	}
	b.c.Stable = 5 // in the third segment
	rep := b.compact()
	require.EqualValues(t, 4, rep.FirstUncleanable)
	require.EqualValues(t, 4, rep.End)
	require.Equal(t, "3:a=2 | 4:a=1 5:a=2 | 6:a=1 7:a=2 |", b.dump())
}

func TestNeighboursAreMergedUpToASegment(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	for i := range 6 {
		b.put(record.None, fmt.Sprintf("key-%d=%s", i, strings.Repeat("v", 100)))
		b.roll(0)
	}
	b.c.Limits.SegmentBytes = 3 * b.c.Segments[0].Size()
	rep := b.compact()
	require.Equal(t, 6, rep.SegmentsBefore)
	require.Equal(t, 2, rep.SegmentsAfter)
	require.Len(t, b.c.Segments, 3)
	require.EqualValues(t, 3, b.c.Segments[1].Base())
}

func TestFullMapLeavesTheRestToTheNextPass(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.c.Limits.MapBytes = 1 // the smallest map: 768 keys
	for i := range 2000 {
		b.put(record.None, fmt.Sprintf("key-%d=1", i), fmt.Sprintf("key-%d=2", i))
		if i%500 == 499 {
			b.roll(0)
		}
	}
	rep := b.compact()
	require.True(t, rep.MapFull)
	require.EqualValues(t, 2*768, rep.End)
	passes := 1
	for ; rep.End < 4000; passes++ {
		next := b.compact()
		require.Greater(t, next.End, rep.End, "progress")
		rep = next
	}
	require.Equal(t, 3, passes)
	require.Equal(t, 2000, strings.Count(b.dump(), "=2"))
	require.Zero(t, strings.Count(b.dump(), "=1"))
}

func TestCompactionIsRepeatedFromTheStartIfTheCheckpointMakesNoSense(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "a=1", "a=2")
	b.roll(0)
	b.c.FirstDirty = 77
	require.EqualValues(t, 0, b.compact().FirstDirty)
	require.Equal(t, "1:a=2 |", b.dump())
}

func TestCancelledCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "a=1", "a=2")
	b.roll(0)
	before := b.dump()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.c.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, b.dump())
	requireNoLeftovers(t, b.fs)
}

func TestModificationTimeIsThatOfTheLastSource(t *testing.T) {
	t.Parallel()
	b := newCompactBed(t)
	b.put(record.None, "a=1", "a=2")
	b.roll(0)
	old := time.UnixMilli(12345000)
	require.NoError(t, b.fs.Chtimes(b.c.Segments[0].Path(), old))
	b.compact()
	info, err := b.fs.Stat(b.c.Segments[0].Path())
	require.NoError(t, err)
	require.True(t, old.Equal(info.ModTime()))
}

// lastValues returns the table that a reader builds from the latest values.
func lastValues(dump string) map[string]string {
	out := map[string]string{}
	for _, f := range strings.Fields(dump) {
		_, kv, ok := strings.Cut(f, ":")
		if !ok || kv == "!" {
			continue
		}
		if k, v, ok := strings.Cut(kv, "="); ok {
			out[k] = v
		} else {
			delete(out, k)
		}
	}
	return out
}

// Random logs, compacted at random moments: the table that a reader builds never changes, and
// every record was appended.
func TestCompactionAgainstATable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		b := newCompactBed(t)
		b.c.Limits.SegmentBytes = 3000
		table, written := map[string]string{}, map[string]bool{}
		for step := range 150 {
			switch {
			case rnd.IntN(6) == 0 && b.active().Size() > 0:
				b.roll(int64(rnd.IntN(3)))
			case rnd.IntN(12) == 0:
				b.c.Now += int64(rnd.IntN(800))
				b.compact()
				require.Equal(t, table, lastValues(b.dump()), "seed %d step %d", seed, step)
			default:
				var kv []string
				offset := b.active().NextOffset()
				for range 1 + rnd.IntN(5) {
					k, v := fmt.Sprintf("k%d", rnd.IntN(15)), fmt.Sprint(offset)
					if rnd.IntN(5) == 0 {
						kv = append(kv, k)
						delete(table, k)
						written[fmt.Sprintf("%d:%s", offset, k)] = true
					} else {
						kv = append(kv, k+"="+v)
						table[k] = v
						written[fmt.Sprintf("%d:%s=%s", offset, k, v)] = true
					}
					offset++
				}
				b.put(record.Codec(rnd.IntN(5)), kv...)
			}
		}
		for _, f := range strings.Fields(b.dump()) {
			if strings.Contains(f, ":") {
				require.True(t, written[f], "seed %d: %s was never written", seed, f)
			}
		}
	}
}
