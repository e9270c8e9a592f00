package segment

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// sealedSegment returns a file system with a sealed segment of count batches with 2 records each,
// and its records. Timestamps go up and down.
func sealedSegment(t testing.TB, count int) (*vfs.MemFS, []record.Record, int64) {
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 300})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(4, 4))
	for range count {
		require.NoError(t, appendTo(s, batch(s.NextOffset(), 2, r.Int64N(100_000), 50)))
	}
	require.NoError(t, s.Seal())
	require.NoError(t, s.Close())
	p := readFile(t, fsys, LogSuffix)
	var all []record.Record
	for len(p) > 0 {
		b, n, err := record.Parse(p)
		require.NoError(t, err)
		for rec, err := range b.All() {
			require.NoError(t, err)
			all = append(all, rec)
		}
		p = p[n:]
	}
	return fsys, all, s.Size()
}

// requireLookups compares lookups with the list of records.
func requireLookups(t testing.TB, s *Segment, all []record.Record, r *rand.Rand) {
	for range 20 {
		offset := r.Int64N(int64(len(all)))
		p, err := s.ReadAt(nil, offset, 1, -1)
		require.NoError(t, err)
		require.Equal(t, offset/2*2, infoOf(p)[0].BaseOffset, "offset %d", offset)
		s.Trim()

		ts, least := r.Int64N(101_000), r.Int64N(int64(len(all)))
		if r.IntN(2) == 0 {
			least = 0
		}
		requireOffsetAt(t, s, all, ts, least)
	}
	var newest record.Record
	for _, rec := range all {
		if newest.Timestamp.IsZero() || rec.Timestamp.After(newest.Timestamp) {
			newest = rec
		}
	}
	ts, offset, err := s.MaxTimestamp()
	require.NoError(t, err)
	require.Equal(t, newest.Timestamp.UnixMilli(), ts)
	require.Equal(t, newest.Offset|1, offset)
}

func requireOffsetAt(t testing.TB, s *Segment, all []record.Record, ts, least int64) {
	offset, found, ok, err := s.OffsetAt(ts, least)
	require.NoError(t, err)
	for _, rec := range all {
		if rec.Offset >= least && rec.Timestamp.UnixMilli() >= ts {
			require.True(t, ok, "time %d from %d", ts, least)
			require.Equal(t, []int64{rec.Offset, rec.Timestamp.UnixMilli()}, []int64{offset, found}, "time %d from %d", ts, least)
			return
		}
	}
	require.False(t, ok)
}

func openSealed(t testing.TB, fsys vfs.FS, size int64, records int, readOnly bool) *Segment {
	s, err := Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 300, ReadOnly: readOnly}, OpenOptions{Clean: true, NextOffset: int64(records), Size: size})
	require.NoError(t, err)
	return s
}

func TestLookupsByOffsetAndTimeFindWhatAListDoes(t *testing.T) {
	t.Parallel()
	fsys, all, size := sealedSegment(t, 2000)
	s := openSealed(t, fsys, size, len(all), false)
	closed(t, s)
	r := rand.New(rand.NewPCG(5, 5))
	for range 20 {
		requireLookups(t, s, all, r)
	}
	for _, ts := range []int64{-1, 0, 99_999, 100_000, 100_001, 1 << 40} {
		requireOffsetAt(t, s, all, ts, 0)
	}
}

func TestLookupInASealedSegmentReadsFewEntries(t *testing.T) {
	t.Parallel()
	fsys, all, size := sealedSegment(t, 20_000)
	s := openSealed(t, fsys, size, len(all), false)
	closed(t, s)
	var read int64
	fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead {
			read += e.Len
		}
	}})
	for i := range 100 {
		_, err := s.Locate(int64(i * 397))
		require.NoError(t, err)
	}
	require.Less(t, read, int64(100*30_000))
	require.False(t, s.index.loaded, "nothing is kept")
}

// damage changes an index file in one of seven ways.
func damage(t testing.TB, fsys vfs.FS, suffix string, r *rand.Rand) {
	name := segmentFile(suffix)
	p, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	switch r.IntN(7) {
	case 0:
		require.NoError(t, fsys.Remove(name))
		return
	case 1:
		p = p[:r.IntN(len(p))]
	case 2:
		p = append(p, make([]byte, r.IntN(5000))...)
	case 3:
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
	case 4:
		for i := range p {
			p[i] = byte(r.Uint32())
		}
	case 5: // one entry is a copy of another entry
		i, j := r.IntN(len(p)/24)*24, r.IntN(len(p)/24)*24
		copy(p[i:i+24], p[j:j+24])
	case 6:
		clear(p[r.IntN(len(p)):])
	}
	writeFile(t, fsys, name, p)
}

// Checklist row D8: damaged indexes are never trusted.
func TestDamagedIndexesNeverMakeReadsWrong(t *testing.T) {
	t.Parallel()
	_, all, size := sealedSegment(t, 400)
	for seed := range uint64(120) {
		fsys, _, _ := sealedSegment(t, 400)
		r := rand.New(rand.NewPCG(seed, 6))
		for range 1 + r.IntN(2) {
			suffix := []string{IndexSuffix, TimeIndexSuffix}[r.IntN(2)]
			if _, err := fsys.Stat(segmentFile(suffix)); errors.Is(err, os.ErrNotExist) {
				continue
			}
			if p := readFile(t, fsys, suffix); len(p) >= 24 {
				damage(t, fsys, suffix, r)
			}
		}
		var s *Segment
		if seed%2 == 0 {
			s = openSealed(t, fsys, size, len(all), seed%4 == 0)
		} else {
			var err error
			s, err = Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 300}, OpenOptions{})
			require.NoError(t, err)
			_, err = s.Recover(RecoverOptions{SameBoot: true})
			require.NoError(t, err)
		}
		requireLookups(t, s, all, r)
		require.NoError(t, s.Close())
	}
}

// Like TestDamagedIndexesNeverMakeReadsWrong, with time indexes that have many entries, and with a
// lookup of every time. Timestamps grow, are shared by many batches, or fall back. If they fall
// back, the batch of an entry may have the entry's timestamp by chance.
func TestDamagedTimeIndexesNeverMakeLookupsWrong(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(i int64) int64{
		"growing":      func(i int64) int64 { return 10 * i },
		"shared":       func(i int64) int64 { return i / 8 * 10 },
		"falling back": func(i int64) int64 { return i/3*10 - i%3*15 + 30 },
	} {
		for seed := range uint64(25) {
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 200})
			require.NoError(t, err)
			const count = 120
			for i := range int64(count) {
				require.NoError(t, appendTo(s, batch(i, 1, at(i), 50)))
			}
			require.NoError(t, s.Seal())
			require.NoError(t, s.Close())
			require.Greater(t, len(readFile(t, fsys, TimeIndexSuffix)), 12*timeEntrySize)
			r := rand.New(rand.NewPCG(seed, 9))
			if seed%2 == 0 {
				damage(t, fsys, TimeIndexSuffix, r)
			} else { // one entry names a later batch, or a lower timestamp
				p := readFile(t, fsys, TimeIndexSuffix)
				i := r.IntN(len(p) / timeEntrySize)
				e := parseTimeEntry(p[timeEntrySize*i:])
				if e.rel += r.Int32N(20); r.IntN(2) == 0 {
					e.ts -= r.Int64N(40)
				}
				copy(p[timeEntrySize*i:], e.appendTo(nil))
				writeFile(t, fsys, segmentFile(TimeIndexSuffix), p)
			}
			s, err = Open(testDir, 0, Config{FS: fsys, ReadOnly: seed%3 == 0}, OpenOptions{Clean: true, NextOffset: count, Size: s.Size()})
			require.NoError(t, err)
			for _, i := range r.Perm(count) {
				for _, ts := range []int64{at(int64(i)) - 1, at(int64(i)), at(int64(i)) + 1} {
					want := int64(0)
					for want < count && at(want) < ts {
						want++
					}
					offset, _, ok, err := s.OffsetAt(ts, 0)
					require.NoError(t, err)
					require.Equal(t, want < count, ok, "%s, seed %d: time %d", name, seed, ts)
					if ok {
						require.Equal(t, want, offset, "%s, seed %d: time %d", name, seed, ts)
					}
				}
			}
			require.NoError(t, s.Close())
		}
	}
}

func TestMissingIndexOfASealedSegmentIsBuiltAnew(t *testing.T) {
	t.Parallel()
	fsys, all, size := sealedSegment(t, 400)
	good, goodTimes := readFile(t, fsys, IndexSuffix), readFile(t, fsys, TimeIndexSuffix)
	require.NoError(t, fsys.Remove(segmentFile(IndexSuffix)))
	require.NoError(t, fsys.Remove(segmentFile(TimeIndexSuffix)))
	s := openSealed(t, fsys, size, len(all), false)
	closed(t, s)
	requireLookups(t, s, all, rand.New(rand.NewPCG(7, 7)))
	require.Equal(t, good, readFile(t, fsys, IndexSuffix))
	require.Equal(t, goodTimes, readFile(t, fsys, TimeIndexSuffix))
}

// A slow disk under an index that is rebuilt delays only goroutines that write indexes or remove
// them. They wait so that virtual time advances.
func TestNobodyWaitsForTheDiskUnderAnIndexThatIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, all, size := sealedSegment(t, 400)
		require.NoError(t, fsys.Remove(segmentFile(IndexSuffix)))
		require.NoError(t, fsys.Remove(segmentFile(TimeIndexSuffix)))
		s := openSealed(t, fsys, size, len(all), false)
		defer fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*index", Times: vfs.Always, Delay: time.Hour})()
		start, found := time.Now(), make(chan error, 1)
		go func() {
			_, _, err := s.MaxTimestamp()
			found <- err
		}()
		synctest.Wait()
		require.Empty(t, found, "the disk is slow")
		s.MarkSynced()
		_, err := s.Locate(1)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "others go on")
		require.NoError(t, s.Remove())
		require.Equal(t, 2*time.Hour, time.Since(start), "its names may be another's afterwards")
		require.NoError(t, <-found)
		_, err = fsys.Stat(segmentFile(IndexSuffix))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestIndexIsFullBeforeItsFileIs(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1, IndexBytes: 120})
	require.NoError(t, err)
	closed(t, s)
	for i := int64(0); !s.IndexFull(); i++ {
		require.Less(t, i, int64(20))
		require.NoError(t, appendTo(s, batch(i, 1, 1000+i, 10)))
	}
	require.NoError(t, s.Seal())
	require.LessOrEqual(t, len(readFile(t, fsys, TimeIndexSuffix)), 120)
	require.True(t, s.Overflows(1<<31))
	require.False(t, s.Overflows(1<<31-1))
}

func TestIndexEntriesGoToTheirFilesInLargeSteps(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1})
	require.NoError(t, err)
	closed(t, s)
	before := fsys.Count(vfs.OpWrite)
	fill(t, s, 5000, 1, 10)
	require.LessOrEqual(t, fsys.Count(vfs.OpWrite)-before, int64(5000+2*5000/flushIndexEntries))
	require.Less(t, fsys.Count(vfs.OpOpen), int64(100))
}

func TestFullDiskForIndexesDoesNotStopAppends(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 1})
	require.NoError(t, err)
	remove := fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*index", Times: vfs.Always, Err: io.ErrShortWrite})
	opens := fsys.Count(vfs.OpOpen)
	fill(t, s, 5000, 1, 10)
	require.Less(t, fsys.Count(vfs.OpOpen)-opens, int64(30), "not tried at every append")
	remove()
	require.NoError(t, s.Seal())
	requireIndexesMatch(t, s)
	require.NoError(t, s.Close())
}

func TestOffsetOfAppendTimeAndOfBatchesWithoutTime(t *testing.T) {
	t.Parallel()
	s, err := Create(testDir, 0, Config{FS: memFS(t)})
	require.NoError(t, err)
	closed(t, s)
	ts, offset, err := s.MaxTimestamp()
	require.NoError(t, err)
	require.Equal(t, []int64{-1, 0}, []int64{ts, offset})
	_, _, ok, err := s.OffsetAt(0, 0)
	require.NoError(t, err)
	require.False(t, ok)
	var b record.Builder
	require.True(t, b.Append(&record.Record{Value: []byte("v"), Timestamp: time.UnixMilli(100)}))
	require.True(t, b.Append(&record.Record{Value: []byte("v"), Timestamp: time.UnixMilli(200)}))
	p, err := b.Build(record.Gzip)
	require.NoError(t, err)
	record.Stamp(p, record.LogAppendTime, 5000)
	require.NoError(t, appendTo(s, p))
	offset, found, ok, err := s.OffsetAt(300, 0)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []int64{0, 5000}, []int64{offset, found})
	first, ok, err := s.FirstTimestamp()
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 5000, first)
}

// FuzzIndexes opens a good segment with any index files: reads and lookups are still right.
func FuzzIndexes(f *testing.F) {
	good, all, size := sealedSegment(f, 60)
	raw := readFile(f, good, LogSuffix)
	index, times := readFile(f, good, IndexSuffix), readFile(f, good, TimeIndexSuffix)
	f.Add(index, times, true)
	f.Add(index, times, false)
	f.Add(index[:len(index)/2+3], times[:12], true)
	f.Add([]byte{}, append(times, make([]byte, 100)...), false)
	f.Add(binary.BigEndian.AppendUint64(nil, 1<<63+5), times, true)
	f.Fuzz(func(t *testing.T, index, times []byte, sealed bool) {
		fsys := memFS(t)
		writeFile(t, fsys, segmentFile(LogSuffix), raw)
		writeFile(t, fsys, segmentFile(IndexSuffix), index)
		writeFile(t, fsys, segmentFile(TimeIndexSuffix), times)
		o := OpenOptions{Clean: sealed, NextOffset: int64(len(all)), Size: size}
		s, err := Open(testDir, 0, Config{FS: fsys, IndexIntervalBytes: 300}, o)
		require.NoError(t, err)
		if !sealed {
			_, err := s.Recover(RecoverOptions{SameBoot: true})
			require.NoError(t, err)
		}
		requireLookups(t, s, all, rand.New(rand.NewPCG(8, 8)))
		require.NoError(t, s.Close())
	})
}
