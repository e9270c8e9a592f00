package segment

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestAppendAllocatesNothing(t *testing.T) {
	s, err := Create(t.TempDir(), 0, Config{})
	require.NoError(t, err)
	closed(t, s)
	p := batch(0, 1, 1, 100)
	bufs, infos := make([][]byte, 1), infoOf(p)
	require.NoError(t, s.Append([][]byte{p}, infos))
	n := testing.AllocsPerRun(20_000, func() {
		bufs[0] = p
		infos[0].BaseOffset++
		infos[0].LastOffset++
		infos[0].MaxTimestamp++
		if err := s.Append(bufs, infos); err != nil {
			t.Fatal(err)
		}
	})
	require.Less(t, n, 0.02)
}

func TestReadIntoRoomAllocatesNothing(t *testing.T) {
	s, err := Create(t.TempDir(), 0, Config{})
	require.NoError(t, err)
	closed(t, s)
	fill(t, s, 1000, 10, 100)
	buf, offset := make([]byte, 0, 64<<10), int64(0)
	n := testing.AllocsPerRun(1000, func() {
		p, err := s.ReadAt(buf, offset, cap(buf), -1)
		if err != nil {
			t.Fatal(err)
		}
		if offset += 1; len(p) == 0 {
			offset = 0
		}
		for len(p) > 0 { // where the next read begins
			size := int(p[8])<<24 | int(p[9])<<16 | int(p[10])<<8 | int(p[11]) + 12
			offset += 10
			p = p[size:]
		}
		offset = offset / 10 * 10
	})
	require.Less(t, n, 0.5)
}

// Checklist row L4: an unused sealed segment is small and holds no descriptor.
func TestIdleSealedSegmentIsSmall(t *testing.T) {
	const n = 2000
	fsys := vfs.OS()
	dir := t.TempDir()
	s, err := Create(dir, 0, Config{FS: fsys})
	require.NoError(t, err)
	fill(t, s, 1000, 10, 100)
	require.NoError(t, s.Seal())
	size, next := s.Size(), s.NextOffset()
	require.NoError(t, s.Close())

	files := NewFileCache(1)
	all := make([]*Segment, n)
	buf := make([]byte, 0, 1<<20)
	before := heap()
	for i := range all {
		all[i], err = Open(dir, 0, Config{FS: fsys, Files: files}, OpenOptions{Clean: true, NextOffset: next, Size: size})
		require.NoError(t, err)
		if i%10 == 0 { // and after it was used
			_, err = all[i].ReadAt(buf, 5000, 100_000, -1)
			require.NoError(t, err)
			all[i].MaxTimestamp()
		}
	}
	per := float64(heap()-before) / n
	require.Less(t, per, 500.0)
	require.LessOrEqual(t, files.Len(), 1)
	for _, s := range all {
		require.NoError(t, s.Close())
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
