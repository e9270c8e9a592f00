package segment

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// twoSegments returns segments with base offsets 0 and 1, with one batch each.
func twoSegments(t *testing.T, disk vfs.FS, files *FileCache) []*Segment {
	var segments []*Segment
	for base := range int64(2) {
		s, err := Create("/", base, Config{FS: disk, Files: files})
		require.NoError(t, err)
		var b record.Builder
		b.Append(&record.Record{Value: []byte("v")})
		p := b.Bytes()
		record.SetBaseOffset(p, base)
		require.NoError(t, s.AppendOne(p, &BatchInfo{Size: len(p), BaseOffset: base, LastOffset: base}))
		segments = append(segments, s)
	}
	return segments
}

// A full cache closes another segment's descriptor. If that close fails it is no error of the read
// that needs the room.
func TestFailedCloseOfAnotherSegmentsFileIsNoErrorOfARead(t *testing.T) {
	disk, files := vfs.Mem(), NewFileCache(1)
	segments := twoSegments(t, disk, files)
	for _, s := range segments {
		require.NoError(t, s.Seal())
	}
	for range 3 {
		for i, s := range segments {
			disk.Inject(vfs.Fault{Ops: vfs.OpClose, Pattern: "*.log", Err: syscall.EIO})
			p, err := s.ReadAt(nil, int64(i), 1000, -1)
			require.NoError(t, err)
			require.NotEmpty(t, p)
		}
	}
	require.Equal(t, 1, files.Len())
}
