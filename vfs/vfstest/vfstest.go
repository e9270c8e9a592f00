// Package vfstest checks implementations of vfs.FS. Run it in the tests of a file system of your
// own.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stratalog/strata/vfs"
)

// Run checks that file systems made by newFS keep the promises of vfs.FS. newFS returns a file
// system and an empty directory on it, which only one test uses.
func Run(t *testing.T, newFS func(t *testing.T) (fsys vfs.FS, dir string)) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"OpenFileHonoursItsFlags", (*suite).openFlags},
		{"WritesAreReadBack", (*suite).readBack},
		{"VectoredWriteIsOneWriteAfterTheOther", (*suite).writev},
		{"VectoredWriteTakesManyBuffers", (*suite).writevMany},
		{"GapsReadAsZeros", (*suite).gaps},
		{"ZerosReplaceWhatWasThere", (*suite).zeros},
		{"TruncatedBytesDoNotComeBack", (*suite).truncate},
		{"AllocateExtendsWithZeros", (*suite).allocate},
		{"ClosedFileRefusesEverything", (*suite).closed},
		{"RemovedFileStaysUsableWhileOpen", (*suite).removedWhileOpen},
		{"RenameReplaces", (*suite).rename},
		{"RenameMovesDirectories", (*suite).renameDir},
		{"LinksShareContent", (*suite).link},
		{"RemoveRefusesFullDirectories", (*suite).remove},
		{"RemoveAllRemovesWhatThereIs", (*suite).removeAll},
		{"ReadDirIsSorted", (*suite).readDir},
		{"MkdirAllKeepsWhatIsThere", (*suite).mkdirAll},
		{"ChtimesSetsTheModificationTime", (*suite).chtimes},
		{"LockHasOneHolder", (*suite).lock},
		{"ErrorsTellWhatHappened", (*suite).errors},
		{"SyncAndSyncDirSucceed", (*suite).sync},
		{"RealPathIsOneNameForAll", (*suite).realPath},
		{"BootIDDoesNotChange", (*suite).bootID},
		{"FilesAreSafeForConcurrentUse", (*suite).concurrent},
		{"HelpersWork", (*suite).helpers},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, dir := newFS(t)
			c.test(&suite{T: t, fs: fsys, dir: dir})
		})
	}
}

// suite is one test.
type suite struct {
	*testing.T

	fs  vfs.FS
	dir string
}

const readWrite = os.O_RDWR | os.O_CREATE

func (s *suite) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) is(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("got error %v, want one matching %v", err, target)
	}
}

func (s *suite) open(name string, flag int) vfs.File {
	s.Helper()
	f, err := s.fs.OpenFile(s.path(name), flag, 0o644)
	s.ok(err)
	s.Cleanup(func() { _ = f.Close() })
	return f
}

func (s *suite) create(name, content string) {
	s.Helper()
	f := s.open(name, readWrite)
	s.write(f, content, 0)
	s.ok(f.Close())
}

func (s *suite) write(f vfs.File, content string, off int64) {
	s.Helper()
	n, err := f.WriteAt([]byte(content), off)
	s.ok(err)
	if n != len(content) {
		s.Fatalf("wrote %d bytes of %d without an error", n, len(content))
	}
}

// content checks the content of a file.
func (s *suite) content(f vfs.File, want string) {
	s.Helper()
	size, err := f.Size()
	s.ok(err)
	if size != int64(len(want)) {
		s.Fatalf("size %d, want %d", size, len(want))
	}
	got := make([]byte, size)
	if n, err := f.ReadAt(got, 0); err != nil && err != io.EOF || n != len(want) {
		s.Fatalf("read %d bytes of %d: %v", n, len(want), err)
	}
	if string(got) != want {
		s.Fatalf("got %.60q, want %.60q", got, want)
	}
}

func (s *suite) holds(name, want string) {
	s.Helper()
	got, err := vfs.ReadFile(s.fs, s.path(name))
	s.ok(err)
	if string(got) != want {
		s.Fatalf("%s holds %.60q, want %.60q", name, got, want)
	}
}

func (s *suite) chtimes() {
	s.create("f", "F")
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	s.ok(s.fs.Chtimes(s.path("f"), when))
	fi, err := s.fs.Stat(s.path("f"))
	s.ok(err)
	if !fi.ModTime().Equal(when) || fi.Name() != "f" || fi.Size() != 1 || fi.IsDir() || !fi.Mode().IsRegular() {
		s.Fatalf("got %v %s %d %v", fi.ModTime(), fi.Name(), fi.Size(), fi.Mode())
	}
	f := s.open("f", os.O_RDWR)
	s.write(f, "G", 0)
	s.ok(f.Close())
	fi, err = s.fs.Stat(s.path("f"))
	s.ok(err)
	if time.Since(fi.ModTime()).Abs() > time.Hour {
		s.Fatalf("writing left the modification time at %v", fi.ModTime())
	}
	s.is(s.fs.Chtimes(s.path("missing"), when), fs.ErrNotExist)
}

func (s *suite) lock() {
	l, err := s.fs.Lock(s.path("lock"))
	s.ok(err)
	_, err = s.fs.Lock(s.path("lock"))
	s.is(err, vfs.ErrLocked)
	_, err = s.fs.Lock(s.path("x", "..", "lock"))
	if err == nil {
		s.Fatal("another spelling of the name was locked, too")
	}
	other, err := s.fs.Lock(s.path("other"))
	s.ok(err)
	s.ok(other.Close())
	s.ok(l.Close())
	again, err := s.fs.Lock(s.path("lock"))
	s.ok(err)
	_ = l.Close() // must not release the lock of another holder
	_, err = s.fs.Lock(s.path("lock"))
	s.is(err, vfs.ErrLocked)
	s.ok(again.Close())
	_, err = s.fs.Lock(s.path("missing", "lock"))
	s.is(err, fs.ErrNotExist)
}

func (s *suite) errors() {
	_, openErr := s.fs.OpenFile(s.path("no"), os.O_RDWR, 0)
	_, statErr := s.fs.Stat(s.path("no"))
	for _, err := range []error{openErr, statErr, s.fs.Remove(s.path("no"))} {
		pe, ok := errors.AsType[*fs.PathError](err)
		if !ok || pe.Path != s.path("no") {
			s.Fatalf("%v does not name the file", err)
		}
	}
}

func (s *suite) sync() {
	f := s.open("f", readWrite)
	s.write(f, "abc", 0)
	s.ok(f.Sync())
	s.ok(s.fs.SyncDir(s.dir))
	s.content(f, "abc")
	s.is(s.fs.SyncDir(s.path("missing")), fs.ErrNotExist)
}

func (s *suite) bootID() {
	if a, b := s.fs.BootID(), s.fs.BootID(); a != b {
		s.Fatalf("%q and %q", a, b)
	}
}

func (s *suite) helpers() {
	s.ok(vfs.MakeDir(s.fs, s.path("a", "b", "c"), 0o755))
	s.ok(vfs.MakeDir(s.fs, s.path("a", "b"), 0o755))
	name := filepath.Join("a", "b", "c", "f")
	s.ok(vfs.WriteFile(s.fs, s.path(name), []byte("one")))
	s.ok(vfs.WriteFile(s.fs, s.path(name), []byte("twotwo")))
	s.holds(name, "twotwo")
	_, err := vfs.ReadFile(s.fs, s.path("missing"))
	s.is(err, fs.ErrNotExist)
	if err := vfs.MakeDir(s.fs, s.path(name), 0o755); err == nil {
		s.Fatal("a file was taken for a directory")
	}
}
