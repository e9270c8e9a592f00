package log_test

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// The server of a network file system is restarted: open descriptors stay stale. Reads continue at
// once. An append is not acknowledged, since bytes that were not synced may be lost. When the log
// is opened again no acknowledged record is missing.
func TestReadsContinueWhenAFileServerIsRestarted(t *testing.T) {
	server := &fileServer{FS: vfs.OS()}
	dir := t.TempDir()
	cfg := log.Config{FS: server, SegmentBytes: 4096}
	l, err := log.Open(dir, cfg)
	require.NoError(t, err)
	acked := 0
	put := func() error {
		_, err := l.Append(t.Context(), record.String("", "k", string(make([]byte, 500))))
		if err == nil {
			acked++
		}
		return err
	}
	read := func() (n int) {
		for r, err := range l.Records(0) {
			require.NoError(t, err)
			require.EqualValues(t, n, r.Offset)
			n++
		}
		return n
	}
	for range 30 {
		require.NoError(t, put())
	}
	require.Equal(t, acked, read())
	for range 3 {
		server.restarts.Add(1)
		require.Equal(t, acked, read())
	}
	require.ErrorIs(t, put(), syscall.ESTALE)
	require.Equal(t, acked, read())
	_ = l.Close()

	l, err = log.Open(dir, cfg)
	require.NoError(t, err)
	require.GreaterOrEqual(t, read(), acked)
	require.NoError(t, put())
	require.NoError(t, l.Close())
	require.Zero(t, server.open.Load(), "no descriptor is left")
}

// fileServer is a network file system whose server can be restarted.
type fileServer struct {
	vfs.FS
	restarts atomic.Int64
	open     atomic.Int64 // files
}

func (s *fileServer) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &servedFile{f, s, s.restarts.Load()}, nil
}

// servedFile is stale after a restart of its server.
type servedFile struct {
	vfs.File
	server *fileServer
	opened int64 // number of restarts before the open
}

func (f *servedFile) stale() error {
	if f.opened != f.server.restarts.Load() {
		return &os.PathError{Op: "use", Path: f.Name(), Err: syscall.ESTALE}
	}
	return nil
}

func (f *servedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.stale(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *servedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.stale(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *servedFile) WritevAt(p [][]byte, off int64) (int, error) {
	if err := f.stale(); err != nil {
		return 0, err
	}
	return f.File.WritevAt(p, off)
}

func (f *servedFile) Truncate(n int64) error {
	if err := f.stale(); err != nil {
		return err
	}
	return f.File.Truncate(n)
}

func (f *servedFile) Sync() error {
	if err := f.stale(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *servedFile) Allocate(off, n int64) error {
	if err := f.stale(); err != nil {
		return err
	}
	return f.File.Allocate(off, n)
}

func (f *servedFile) Close() error {
	f.server.open.Add(-1)
	return errors.Join(f.stale(), f.File.Close())
}
