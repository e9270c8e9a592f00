package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

const readWriteCreate = os.O_RDWR | os.O_CREATE

func TestFaultHitsTheChosenOperations(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault vfs.Fault
		want  string // one letter per write to a.log and b.log in turn: o succeeds, x fails
	}{
		{"first", vfs.Fault{Ops: vfs.OpWrite, Err: io.ErrNoProgress}, "xooooo"},
		{"third", vfs.Fault{Ops: vfs.OpWrite, After: 2, Err: io.ErrNoProgress}, "ooxooo"},
		{"twice", vfs.Fault{Ops: vfs.OpWrite, After: 1, Times: 2, Err: io.ErrNoProgress}, "oxxooo"},
		{"sticky", vfs.Fault{Ops: vfs.OpWrite, After: 3, Times: vfs.Always, Err: io.ErrNoProgress}, "oooxxx"},
		{"by name", vfs.Fault{Ops: vfs.OpWrite, Pattern: "b.*", Times: vfs.Always, Err: io.ErrNoProgress}, "oxoxox"},
		{"other kind", vfs.Fault{Ops: vfs.OpSync | vfs.OpRead, Times: vfs.Always, Err: io.ErrNoProgress}, "oooooo"},
		{"any kind", vfs.Fault{After: 1, Err: io.ErrNoProgress}, "oxoooo"},
		{"malformed pattern", vfs.Fault{Pattern: "[", Times: vfs.Always, Err: io.ErrNoProgress}, "oooooo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := memWithDir(t)
			files := []vfs.File{open(t, m, "a.log"), open(t, m, "b.log")}
			remove := m.Inject(c.fault)
			got := ""
			for i := range 6 {
				_, err := files[i%2].WriteAt([]byte("x"), int64(i))
				if err == nil {
					got += "o"
				} else {
					require.ErrorIs(t, err, io.ErrNoProgress)
					pe, ok := errors.AsType[*fs.PathError](err)
					require.True(t, ok)
					require.Equal(t, files[i%2].Name(), pe.Path)
					got += "x"
				}
			}
			require.Equal(t, c.want, got)
			remove()
			remove()
			_, err := files[0].WriteAt([]byte("x"), 0)
			require.NoError(t, err)
		})
	}
}

func TestEveryKindOfOperationCanFail(t *testing.T) {
	ops := map[vfs.Op]func(m *vfs.MemFS, f vfs.File) error{
		vfs.OpOpen:     func(m *vfs.MemFS, _ vfs.File) error { _, err := m.OpenFile(in("f"), os.O_RDONLY, 0); return err },
		vfs.OpCreate:   func(m *vfs.MemFS, _ vfs.File) error { _, err := m.OpenFile(in("g"), readWriteCreate, 0); return err },
		vfs.OpRead:     func(_ *vfs.MemFS, f vfs.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		vfs.OpWrite:    func(_ *vfs.MemFS, f vfs.File) error { _, err := f.WritevAt([][]byte{{1}, {2}}, 0); return err },
		vfs.OpSync:     func(_ *vfs.MemFS, f vfs.File) error { return f.Sync() },
		vfs.OpTruncate: func(_ *vfs.MemFS, f vfs.File) error { return f.Truncate(0) },
		vfs.OpAllocate: func(_ *vfs.MemFS, f vfs.File) error { return f.Allocate(0, 100) },
		vfs.OpClose:    func(_ *vfs.MemFS, f vfs.File) error { return f.Close() },
		vfs.OpRename:   func(m *vfs.MemFS, _ vfs.File) error { return m.Rename(in("f"), in("g")) },
		vfs.OpLink:     func(m *vfs.MemFS, _ vfs.File) error { return m.Link(in("f"), in("g")) },
		vfs.OpRemove:   func(m *vfs.MemFS, _ vfs.File) error { return m.RemoveAll(in("f")) },
		vfs.OpReadDir:  func(m *vfs.MemFS, _ vfs.File) error { _, err := m.ReadDir(dir); return err },
		vfs.OpMkdir:    func(m *vfs.MemFS, _ vfs.File) error { return m.MkdirAll(in("g"), 0o755) },
		vfs.OpStat:     func(_ *vfs.MemFS, f vfs.File) error { _, err := f.Size(); return err },
		vfs.OpChtimes:  func(m *vfs.MemFS, _ vfs.File) error { return m.Chtimes(in("f"), time.Unix(0, 0)) },
		vfs.OpSyncDir:  func(m *vfs.MemFS, _ vfs.File) error { return m.SyncDir(dir) },
		vfs.OpLock:     func(m *vfs.MemFS, _ vfs.File) error { _, err := m.Lock(in("l")); return err },
	}
	var seen vfs.Op
	for op, do := range ops {
		seen |= op
		t.Run(op.String(), func(t *testing.T) {
			m := memWithDir(t)
			f := stableFile(t, m, "f", "abc")
			before := m.Count(op)
			remove := m.Inject(vfs.Fault{Ops: op, Times: vfs.Always, Err: syscall.EIO})
			require.ErrorIs(t, do(m, f), syscall.EIO)
			require.Equal(t, before+1, m.Count(op))
			remove()
			if op != vfs.OpClose { // a failed operation had no effect
				require.Equal(t, "abc", content(t, m, "f"))
				require.Equal(t, "-", content(t, m, "g"))
				require.NoError(t, do(m, f))
			}
		})
	}
	require.Equal(t, vfs.OpAny, seen)
}

func TestShortWriteKeepsAPart(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	for _, c := range []struct {
		fault vfs.Fault
		want  string
		err   error
	}{
		{vfs.Fault{Keep: 2}, "ab", io.ErrShortWrite},
		{vfs.Fault{Keep: -1}, "abcde", io.ErrShortWrite},
		{vfs.Fault{Keep: -99, Err: syscall.ENOSPC}, "", syscall.ENOSPC},
		{vfs.Fault{Keep: 4, Err: syscall.ENOSPC}, "abcd", syscall.ENOSPC},
		{vfs.Fault{Err: syscall.ENOSPC}, "", syscall.ENOSPC},
	} {
		require.NoError(t, f.Truncate(0))
		c.fault.Ops = vfs.OpWrite
		remove := m.Inject(c.fault)
		n, err := f.WritevAt([][]byte{[]byte("abc"), []byte("def")}, 0)
		remove()
		require.ErrorIs(t, err, c.err)
		require.Equal(t, len(c.want), n)
		require.Equal(t, c.want, content(t, m, "f"))
	}
}

func TestReadsCanBeShortOrWrong(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", "abcdef")
	p := make([]byte, 6)
	remove := m.Inject(vfs.Fault{Ops: vfs.OpRead, Keep: -1})
	n, err := f.ReadAt(p, 0)
	remove()
	require.Equal(t, 5, n)
	require.Equal(t, io.EOF, err)

	remove = m.Inject(vfs.Fault{Flip: true, Bit: 3*8 + 1, Times: vfs.Always})
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, "abcfef", string(p))
	_, err = f.ReadAt(p[:2], 3)
	require.NoError(t, err)
	require.Equal(t, "fe", string(p[:2]))
	_, err = f.ReadAt(p[:2], 4)
	require.NoError(t, err)
	require.Equal(t, "ef", string(p[:2]), "a read that does not cover the bit is right")
	remove()
	require.Equal(t, "abcdef", content(t, m, "f"))
}

func TestLiesDoNothing(t *testing.T) {
	m := memWithDir(t)
	f := open(t, m, "f")
	remove := m.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Lie: true, Times: vfs.Always})
	write(t, f, "abc", 0)
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir(dir))
	remove()
	require.Equal(t, "-", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	require.NoError(t, m.SyncDir(dir))
	require.Equal(t, "", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	require.NoError(t, f.Sync())
	require.Equal(t, "abc", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))

	m.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Lie: true, Times: 2})
	write(t, f, "ABC", 0)
	require.Equal(t, "abc", content(t, m, "f"))
	_, err := m.OpenFile(in("g"), readWriteCreate, 0)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// As on Linux: after a failed fsync the pages count as clean, and the next fsync does not write
// them.
func TestFailedSyncLosesTheDataForGood(t *testing.T) {
	m := memWithDir(t)
	f := stableFile(t, m, "f", strings.Repeat("o", 3*4096))
	write(t, f, strings.Repeat("n", 2*4096), 0)
	m.Inject(vfs.Fault{Ops: vfs.OpSync, Err: syscall.EIO})
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	write(t, f, "x", 4096)
	require.NoError(t, f.Sync())
	require.Equal(t, "nx", content(t, m, "f")[4095:4097])
	got := content(t, m.CrashWith(all(vfs.CrashKept)), "f")
	require.Equal(t, strings.Repeat("o", 4096), got[:4096], "the failed block is what it was")
	require.Equal(t, "x"+strings.Repeat("n", 4095), got[4096:8192], "a block written since got there as a whole")
	write(t, f, strings.Repeat("n", 4096), 0)
	require.NoError(t, f.Sync())
	require.Equal(t, content(t, m, "f"), content(t, m.CrashWith(all(vfs.CrashLost)), "f"), "writing it again heals")
}

func TestDelayTakesVirtualTimeAndHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memWithDir(t)
		f := open(t, m, "f")
		m.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: time.Hour})
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			_ = f.Sync()
			done <- time.Since(start)
		}()
		synctest.Wait()
		write(t, f, "abc", 0) // while the Sync runs, and therefore not part of it
		require.Zero(t, time.Since(start))
		require.Equal(t, time.Hour, <-done)
		require.NoError(t, m.SyncDir(dir))
		require.Equal(t, "", content(t, m.CrashWith(all(vfs.CrashLost)), "f"))
	})
}

func TestObserverSeesOperationsInOrder(t *testing.T) {
	m := vfs.Mem()
	var trace, results []string
	remove := m.Observe(vfs.Observer{
		Before: func(e vfs.Event) { trace = append(trace, e.String()) },
		After: func(e vfs.Event, err error) {
			if err != nil {
				results = append(results, e.Op.String()+" "+err.Error())
			}
		},
	})
	require.NoError(t, m.MkdirAll(dir, 0o755))
	f := open(t, m, "f")
	write(t, f, "abcd", 3)
	require.NoError(t, f.Truncate(5))
	require.NoError(t, errors.Join(f.Sync(), m.Rename(in("f"), in("g"))))
	require.Error(t, m.Remove(in("f")))
	_, err := f.ReadAt(make([]byte, 2), 1)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	remove()
	require.NoError(t, m.SyncDir(dir))
	require.Equal(t, []string{
		"1 mkdir /data", "2 create /data/f", "3 write /data/f [3,7)", "4 truncate /data/f to 5", "5 sync /data/f",
		"6 rename /data/f -> /data/g", "7 remove /data/f", "8 read /data/f [1,3)", "9 close /data/f",
	}, trace)
	require.Equal(t, []string{"remove remove /data/f: file does not exist"}, results)
	require.EqualValues(t, 10, m.Count(vfs.OpAny))
	require.EqualValues(t, 8, m.Count(vfs.OpChange))
}

// A crash explorer stops at every operation: it copies the file system from within an observer.
func TestObserverMayCrashTheFileSystem(t *testing.T) {
	m := vfs.Mem()
	states := map[string]bool{}
	m.Observe(vfs.Observer{Before: func(vfs.Event) { states[content(t, m.CrashWith(all(vfs.CrashLost)), "f")] = true }})
	require.NoError(t, vfs.MakeDir(m, dir, 0o755))
	require.NoError(t, vfs.WriteFile(m, in("f"), []byte("one")))
	require.NoError(t, vfs.WriteFile(m, in("f"), []byte("two")))
	require.NoError(t, m.SyncDir(dir))
	require.Equal(t, map[string]bool{"-": true, "one": true, "two": true}, states)
}

func TestFaultsWorkOnTheOperatingSystemToo(t *testing.T) {
	fsys := vfs.Faulty(vfs.OS())
	name := t.TempDir() + "/f"
	f, err := fsys.OpenFile(name, readWriteCreate, 0o644)
	require.NoError(t, err)
	defer f.Close()
	fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Keep: 3, Err: syscall.ENOSPC})
	n, err := f.WriteAt([]byte("abcdef"), 0)
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, syscall.ENOSPC)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "abc", string(b))
	require.Equal(t, vfs.OS().BootID(), fsys.BootID())
}
