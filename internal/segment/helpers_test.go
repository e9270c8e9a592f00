package segment

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const testDir = "/log"

// memFS returns a file system in memory with an empty testDir.
func memFS(t testing.TB) *vfs.MemFS {
	fsys := vfs.Mem()
	require.NoError(t, vfs.MakeDir(fsys, testDir, 0o755))
	return fsys
}

// batch returns an encoded batch of n records from offset base on, with timestamps from ms on and
// values of size bytes.
func batch(base int64, n int, ms int64, size int) []byte {
	var b record.Builder
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(1)
	for i := range n {
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(base) + byte(i*7+j)
		}
		if !b.Append(&record.Record{Key: fmt.Appendf(nil, "k%06d", base+int64(i)), Value: value, Timestamp: time.UnixMilli(ms + int64(i))}) {
			panic("batch is full")
		}
	}
	p, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return p
}

// infoOf describes encoded batches.
func infoOf(p []byte) (infos []BatchInfo) {
	for len(p) > 0 {
		b, err := record.ParseUnverified(p)
		if err != nil {
			panic(err)
		}
		infos = append(infos, InfoOf(&b))
		p = p[b.Size():]
	}
	return infos
}

func appendTo(s *Segment, p []byte) error {
	infos := infoOf(p)
	if len(infos) == 1 && infos[0].BaseOffset%4 < 2 { // both ways do the same
		return s.AppendOne(p, &infos[0])
	}
	return s.Append([][]byte{p}, infos)
}

// fill appends batches of n records until there are count batches, and returns all bytes.
func fill(t testing.TB, s *Segment, count, n, size int) (all []byte) {
	for i := range count {
		p := batch(s.NextOffset(), n, 1000+10*int64(i), size)
		require.NoError(t, appendTo(s, p))
		all = append(all, p...)
	}
	return all
}

// readAll reads from offset to the end, in steps of about max bytes.
func readAll(s *Segment, offset int64, max int) (all []byte, err error) {
	for {
		n := len(all)
		if all, err = s.ReadAt(all, offset, max, -1); err != nil || len(all) == n {
			return all, err
		}
		infos := infoOf(all[n:])
		offset = infos[len(infos)-1].LastOffset + 1
	}
}

func readFile(t testing.TB, fsys vfs.FS, suffix string) []byte {
	p, err := vfs.ReadFile(fsys, filepath.Join(testDir, FileName(0, suffix)))
	require.NoError(t, err)
	return p
}

// writeFile writes a file as it is, without a sync.
func writeFile(t testing.TB, fsys vfs.FS, name string, p []byte) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(p, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func segmentFile(suffix string) string { return filepath.Join(testDir, FileName(0, suffix)) }

func closed(t testing.TB, s *Segment) {
	t.Cleanup(func() { require.NoError(t, s.Close()) })
}
