package segment

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestZerosAreWrittenAheadOfManyAppends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ record, step, total, zeroWrites int }{
		"small": {record: 1500, step: 64 << 10, total: 200 << 10, zeroWrites: 40},
		// some while the segment is short, then one in 32
		"large": {record: 55_000, step: 8 << 20, total: 20 << 20, zeroWrites: 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys})
			require.NoError(t, err)
			closed(t, s)
			var all []byte
			writes, appends := fsys.Count(vfs.OpWrite), 0
			for ; len(all) < c.total; appends++ {
				p := batch(s.NextOffset(), 2, 1000, c.record)
				require.NoError(t, s.Preallocate(int64(c.step)))
				require.NoError(t, s.ZeroAhead(len(p)))
				require.LessOrEqual(t, s.zeroed, s.Allocated(), "the file does not grow")
				if appends > 0 {
					require.GreaterOrEqual(t, s.zeroed, s.Size()+int64(len(p)), "what comes is covered")
				}
				require.NoError(t, appendTo(s, p))
				all = append(all, p...)
			}
			require.Less(t, int(fsys.Count(vfs.OpWrite)-writes), appends+c.zeroWrites)
			require.Equal(t, append(all[:len(all):len(all)], make([]byte, s.Allocated()-s.Size())...), readFile(t, fsys, LogSuffix))
			require.NoError(t, s.Sync())
			require.NoError(t, s.Close())
			require.Equal(t, all, readFile(t, fsys, LogSuffix))
		})
	}
}

func TestZerosAreWrittenAgainAfterACut(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*Segment) error{
		"truncation": func(s *Segment) error { return s.Truncate(2) },
		"trim":       func(s *Segment) error { return s.TrimTail() },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := memFS(t)
			s, err := Create(testDir, 0, Config{FS: fsys})
			require.NoError(t, err)
			closed(t, s)
			require.NoError(t, s.Preallocate(1<<20))
			require.NoError(t, s.ZeroAhead(4000))
			fill(t, s, 3, 2, 100)
			require.NoError(t, s.Sync())
			require.NoError(t, cut(s))
			require.Equal(t, s.Size(), s.Allocated())
			require.NoError(t, s.ZeroAhead(4000), "nothing is reserved: nothing to do")
			require.Equal(t, s.Size(), s.Allocated())
			require.NoError(t, s.Preallocate(1<<20))
			writes := fsys.Count(vfs.OpWrite)
			require.NoError(t, s.ZeroAhead(4000))
			require.Equal(t, writes+1, fsys.Count(vfs.OpWrite))
			require.NoError(t, s.ZeroAhead(maxZeroWrite+1))
			require.NoError(t, s.ZeroAhead(4000))
			require.Equal(t, writes+1, fsys.Count(vfs.OpWrite), "large appends, and what was zeroed, are left alone")
		})
	}
}

func TestFailureToWriteZerosLeavesTheSegmentAsItWas(t *testing.T) {
	t.Parallel()
	fsys := memFS(t)
	s, err := Create(testDir, 0, Config{FS: fsys})
	require.NoError(t, err)
	closed(t, s)
	require.NoError(t, s.Preallocate(1<<20))
	all := fill(t, s, 3, 2, 100)
	fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Err: syscall.EIO, Keep: 4000})
	require.ErrorIs(t, s.ZeroAhead(4000), syscall.EIO)
	all = append(all, fill(t, s, 3, 2, 100)...)
	require.NoError(t, s.ZeroAhead(4000))
	p, err := readAll(s, 0, 1<<20)
	require.NoError(t, err)
	require.Equal(t, all, p)
}
