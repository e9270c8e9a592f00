package compact

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// kafkaSegments copies the segments of a directory of testdata/compaction into memory and opens
// them.
func kafkaSegments(t testing.TB, fsys *vfs.MemFS, from string) (segments []*segment.Segment) {
	require.NoError(t, fsys.MkdirAll(bedDir, 0o755))
	files, err := filepath.Glob("testdata/compaction/" + from + "/*")
	require.NoError(t, err)
	for _, f := range files {
		p, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(fsys, filepath.Join(bedDir, filepath.Base(f)), p))
	}
	for _, f := range files {
		if !strings.HasSuffix(f, segment.LogSuffix) {
			continue
		}
		var base int64
		_, err := fmt.Sscanf(filepath.Base(f), "%d", &base)
		require.NoError(t, err)
		s, err := segment.Open(bedDir, base, segment.Config{FS: fsys}, segment.OpenOptions{Clean: true, NextOffset: -1, Size: -1})
		require.NoError(t, err)
		segments = append(segments, s)
	}
	return segments
}

// describe lists everything that compaction decides on: all except the bytes of compressed records
// and the time of the delete horizon.
func describe(t testing.TB, segments []*segment.Segment) (out []string) {
	for _, s := range segments {
		out = append(out, fmt.Sprintf("segment %d", s.Base()))
		for b, err := range s.Batches(s.Base()) {
			require.NoError(t, err)
			horizon := b.BaseTimestamp
			if b.HasDeleteHorizon() {
				horizon = 0
			}
			out = append(out, fmt.Sprintf("batch %d-%d records=%d attributes=%x producer=%d/%d sequence=%d max=%d base=%d epoch=%d", b.BaseOffset, b.LastOffset(),
				b.RecordCount, b.Attributes, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.MaxTimestamp, horizon, b.LeaderEpoch))
			for r, err := range b.All() {
				require.NoError(t, err)
				out = append(out, fmt.Sprintf("  %d %d %q %q tombstone=%v %v", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Value == nil, r.Headers))
			}
		}
		aborted, _, err := s.Aborted(0, math.MaxInt64)
		require.NoError(t, err)
		for _, a := range aborted {
			out = append(out, fmt.Sprintf("  aborted %+v", a))
		}
	}
	return out
}

// testdata/compaction/before is a log of every codec with idempotent producers, transactions and
// tombstones. testdata/compaction/after is the result of the log cleaner of Apache Kafka 4.3.
func TestCompactionDoesWhatKafkasCleanerDid(t *testing.T) {
	t.Parallel()
	want := describe(t, kafkaSegments(t, vfs.Mem(), "after"))
	b := newCompactBed(t)
	b.fs = vfs.Mem()
	b.c.FS, b.c.Segment.FS = b.fs, b.fs
	b.c.Segments = kafkaSegments(t, b.fs, "before")
	b.c.Limits.SegmentBytes = 1 << 30
	last := map[int64]ProducerLast{}
	for _, s := range b.c.Segments {
		for batch, err := range s.Batches(s.Base()) {
			require.NoError(t, err)
			if batch.HasProducerID() && !batch.IsControl() {
				last[batch.ProducerID] = ProducerLast{Offset: batch.LastOffset()}
			}
		}
	}
	b.c.LastOf = func(id int64) (l ProducerLast, ok bool) { l, ok = last[id]; return l, ok }
	rep := b.compact()
	require.Equal(t, want, describe(t, b.c.Segments))
	require.Equal(t, 6, rep.SegmentsBefore)
	require.Equal(t, 1, rep.SegmentsAfter)
	codecs := map[record.Codec]bool{}
	for batch, err := range b.c.Segments[0].Batches(0) {
		require.NoError(t, err)
		codecs[batch.Codec()] = true
	}
	require.Greater(t, len(codecs), 3)
}
