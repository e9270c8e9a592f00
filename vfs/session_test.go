package vfs_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
	"github.com/stratalog/strata/vfs/vfstest"
)

func TestSessionIsTheFileSystemBelowUntilItEnds(t *testing.T) {
	t.Run("OS", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.NewSession(vfs.OS()), t.TempDir() })
	})
	t.Run("Mem", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
			m := vfs.Mem()
			require.NoError(t, m.MkdirAll("/data", 0o755))
			return vfs.NewSession(m), "/data"
		})
	})
}

func TestEndedSessionChangesNothing(t *testing.T) {
	m := vfs.Mem()
	require.NoError(t, m.MkdirAll("data/sub", 0o755))
	s := vfs.NewSession(m)
	f, err := s.OpenFile("data/f", os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("abc"), 0)
	require.NoError(t, err)
	lock, err := s.Lock("data/lock")
	require.NoError(t, err)
	s.End()
	s.End()
	s.Wait()
	changes, size := m.Count(vfs.OpAny), int64(0)
	for what, call := range map[string]func() error{
		"open":     func() error { _, err := s.OpenFile("data/g", os.O_RDWR|os.O_CREATE, 0o644); return err },
		"rename":   func() error { return s.Rename("data/f", "data/g") },
		"link":     func() error { return s.Link("data/f", "data/g") },
		"remove":   func() error { return s.Remove("data/f") },
		"all":      func() error { return s.RemoveAll("data") },
		"readdir":  func() error { _, err := s.ReadDir("data"); return err },
		"mkdir":    func() error { return s.MkdirAll("data/x", 0o755) },
		"stat":     func() error { _, err := s.Stat("data/f"); return err },
		"chtimes":  func() error { return s.Chtimes("data/f", time.Unix(0, 0)) },
		"syncdir":  func() error { return s.SyncDir("data") },
		"lock":     func() error { _, err := s.Lock("data/other"); return err },
		"realpath": func() error { _, err := s.RealPath("data/f"); return err },
		"whole":    func() error { _, err := vfs.ReadFile(s, "data/f"); return err },
		"read":     func() error { _, err := f.ReadAt(make([]byte, 3), 0); return err },
		"write":    func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		"writev":   func() error { _, err := f.WritevAt([][]byte{[]byte("x")}, 0); return err },
		"size":     func() (err error) { size, err = f.Size(); return err },
		"truncate": func() error { return f.Truncate(0) },
		"allocate": func() error { return f.Allocate(0, 10) },
		"sync":     func() error { return f.Sync() },
	} {
		require.ErrorIs(t, call(), vfs.ErrEnded, what)
	}
	require.Equal(t, changes, m.Count(vfs.OpAny), "nothing has got there")
	require.Zero(t, size)
	require.NoError(t, f.Close())
	require.NoError(t, lock.Close())
	p, err := vfs.ReadFile(m, "data/f")
	require.NoError(t, err)
	require.Equal(t, "abc", string(p))
	again, err := m.Lock("data/lock")
	require.NoError(t, err, "it was given up")
	require.NoError(t, again.Close())
}

// A call that is running when the session ends reports no success, regardless of its effect. Its
// delay ends, and Wait returns only then.
func TestCallUnderWayConfirmsNothingWhenTheSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := vfs.Mem()
		s := vfs.NewSession(vfs.Faulty(m))
		f, err := s.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("abc"), 0)
		require.NoError(t, err)
		m.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: time.Hour})
		synced, waited := make(chan error, 1), make(chan struct{})
		go func() { synced <- f.Sync() }()
		go func() { s.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("the session has not ended")
		default:
		}
		start := time.Now()
		s.End()
		require.ErrorIs(t, <-synced, vfs.ErrEnded)
		<-waited
		require.Zero(t, time.Since(start))
		require.NoError(t, f.Close())
	})
}

func TestWaitReturnsWhenNoCallIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := vfs.Mem()
		require.NoError(t, vfs.WriteFile(m, "other", nil))
		release, reached := make(chan struct{}), make(chan struct{})
		m.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op == vfs.OpRename && e.Name == "other" {
				close(reached)
				<-release
			}
		}})
		s := vfs.NewSession(m)
		require.NoError(t, s.MkdirAll("d", 0o755))
		renamed, waited := make(chan error, 1), make(chan struct{})
		go func() { renamed <- s.Rename("other", "d/f") }()
		<-reached
		s.End()
		go func() { s.Wait(); close(waited) }()
		synctest.Wait()
		select {
		case <-waited:
			t.Fatal("a call is under way")
		default:
		}
		close(release)
		require.ErrorIs(t, <-renamed, vfs.ErrEnded)
		<-waited
		_, err := m.Stat("d/f")
		require.NoError(t, err, "it took place, and nobody was told")
	})
}
