// Package vfstest checks implementations of vfs.FS.
package vfstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stratalog/strata/vfs"
)

// Run checks that file systems made by newFS do what vfs.FS promises. newFS returns a file system
// and an empty directory on it, which are used by one test only.
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

// content checks what a file holds.
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

func (s *suite) openFlags() {
	_, err := s.fs.OpenFile(s.path("f"), os.O_RDWR, 0)
	s.is(err, fs.ErrNotExist)
	s.create("f", "abc")
	_, err = s.fs.OpenFile(s.path("f"), readWrite|os.O_EXCL, 0o644)
	s.is(err, fs.ErrExist)
	s.content(s.open("f", readWrite), "abc")
	s.content(s.open("f", readWrite|os.O_TRUNC), "")
	if _, err = s.fs.OpenFile(s.path("f"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		s.Fatal("O_APPEND was accepted")
	}
	if _, err = s.open("f", os.O_RDONLY).WriteAt([]byte("x"), 0); err == nil {
		s.Fatal("a read-only file was written to")
	}
	if _, err = s.open("f", os.O_WRONLY).ReadAt(make([]byte, 1), 0); err == nil || err == io.EOF {
		s.Fatalf("a write-only file was read: %v", err)
	}
	_, err = s.fs.OpenFile(s.path("missing", "f"), readWrite, 0o644)
	s.is(err, fs.ErrNotExist)
	if _, err = s.fs.OpenFile(s.path("f", "g"), readWrite, 0o644); err == nil {
		s.Fatal("a file was created below a file")
	}
	if _, err = s.fs.OpenFile(s.dir, os.O_RDWR, 0o644); err == nil {
		s.Fatal("a directory was opened for writing")
	}
}

func (s *suite) readBack() {
	f := s.open("f", readWrite)
	s.content(f, "")
	s.write(f, "hello", 0)
	s.write(f, "J", 0)
	s.content(f, "Jello")
	p := make([]byte, 3)
	if n, err := f.ReadAt(p, 1); n != 3 || err != nil || string(p) != "ell" {
		s.Fatalf("read %d %q %v", n, p, err)
	}
	if n, err := f.ReadAt(p, 3); n != 2 || err != io.EOF {
		s.Fatalf("read over the end: %d %v, want 2 and io.EOF", n, err)
	}
	if n, err := f.ReadAt(p, 100); n != 0 || err != io.EOF {
		s.Fatalf("read behind the end: %d %v, want 0 and io.EOF", n, err)
	}
	if _, err := f.ReadAt(p, -1); err == nil || err == io.EOF {
		s.Fatalf("read at a negative offset: %v", err)
	}
	if _, err := f.WriteAt(p, -1); err == nil {
		s.Fatal("wrote at a negative offset")
	}
	if f.Name() != s.path("f") {
		s.Fatalf("name is %q", f.Name())
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	s.write(f, string(big), 4090)
	got := make([]byte, len(big))
	if _, err := f.ReadAt(got, 4090); err != nil || !bytes.Equal(got, big) {
		s.Fatalf("a big write is not read back: %v", err)
	}
}

func (s *suite) writev() {
	f := s.open("f", readWrite)
	for _, bufs := range [][]string{{"abc"}, {"a", "b", "c"}, {"", "ab", "", "c", ""}, {}, {""}} {
		vec, want := make([][]byte, 0), ""
		for _, b := range bufs {
			vec = append(vec, []byte(b))
			want += b
		}
		s.ok(f.Truncate(0))
		n, err := f.WritevAt(vec, 2)
		s.ok(err)
		if n != len(want) {
			s.Fatalf("wrote %d bytes of %q", n, bufs)
		}
		if want != "" {
			want = "\x00\x00" + want
		}
		s.content(f, want)
	}
	if _, err := f.WritevAt([][]byte{{1}, {2}}, -1); err == nil {
		s.Fatal("wrote at a negative offset")
	}
}

func (s *suite) writevMany() {
	f := s.open("f", readWrite)
	var vec [][]byte
	var want []byte
	for i := range 3000 {
		b := bytes.Repeat([]byte{byte(i)}, i%7)
		vec, want = append(vec, b), append(want, b...)
	}
	n, err := f.WritevAt(vec, 0)
	s.ok(err)
	if n != len(want) {
		s.Fatalf("wrote %d bytes of %d", n, len(want))
	}
	s.content(f, string(want))
}

// zeros overwrites data of many pages with zeros: all of it, a part of a page, what is behind the
// data.
func (s *suite) zeros() {
	f := s.open("f", readWrite)
	data := bytes.Repeat([]byte("x"), 100_000)
	want := append(slices.Clone(data), make([]byte, 10_000)...)
	s.write(f, string(data), 0)
	for _, r := range [][2]int{{99_000, 110_000}, {4096, 8192}, {20_000, 20_010}, {30_000, 60_000}, {0, 1}} {
		clear(want[r[0]:r[1]])
		s.write(f, string(make([]byte, r[1]-r[0])), int64(r[0]))
		s.content(f, string(want))
	}
	copy(want[105_000:], "y")
	s.write(f, "y", 105_000)
	s.content(f, string(want))
}

func (s *suite) gaps() {
	f := s.open("f", readWrite)
	s.write(f, "end", 10_000)
	s.content(f, string(make([]byte, 10_000))+"end")
	const far = 1 << 40
	s.write(f, "x", far)
	p := []byte("garbage")
	if n, err := f.ReadAt(p, far-6); n != 7 || err != nil && err != io.EOF || string(p) != "\x00\x00\x00\x00\x00\x00x" {
		s.Fatalf("read %d %q %v", n, p, err)
	}
}

func (s *suite) truncate() {
	f := s.open("f", readWrite)
	s.write(f, string(bytes.Repeat([]byte("x"), 9000)), 0)
	for _, size := range []int{8999, 4097, 4096, 4095, 3, 0} {
		s.ok(f.Truncate(int64(size)))
		s.content(f, string(bytes.Repeat([]byte("x"), size)))
		s.ok(f.Truncate(9000))
		s.content(f, string(bytes.Repeat([]byte("x"), size))+string(make([]byte, 9000-size)))
	}
	if err := f.Truncate(-1); err == nil {
		s.Fatal("a negative size was accepted")
	}
}

func (s *suite) allocate() {
	f := s.open("f", readWrite)
	s.write(f, "abc", 0)
	err := f.Allocate(0, 10_000)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Skip("not supported here")
	}
	s.ok(err)
	s.content(f, "abc"+string(make([]byte, 9997)))
	s.ok(f.Allocate(10, 20))
	s.content(f, "abc"+string(make([]byte, 9997)))
	if err := f.Allocate(-1, 5); err == nil {
		s.Fatal("a negative offset was accepted")
	}
}

func (s *suite) closed() {
	f := s.open("f", readWrite)
	s.ok(f.Close())
	p := make([]byte, 1)
	_, readErr := f.ReadAt(p, 0)
	_, writeErr := f.WriteAt(p, 0)
	_, sizeErr := f.Size()
	for _, err := range []error{readErr, writeErr, sizeErr, f.Truncate(0), f.Close()} {
		s.is(err, fs.ErrClosed)
	}
	if f.Sync() == nil || f.Allocate(0, 1) == nil {
		s.Fatal("a closed file could be used")
	}
	if _, err := f.WritevAt([][]byte{p, p}, 0); err == nil {
		s.Fatal("a closed file was written to")
	}
}

func (s *suite) removedWhileOpen() {
	s.create("f", "abc")
	f := s.open("f", os.O_RDWR)
	if err := s.fs.Remove(s.path("f")); err != nil {
		s.Skipf("not possible here: %v", err)
	}
	_, err := s.fs.Stat(s.path("f"))
	s.is(err, fs.ErrNotExist)
	s.write(f, "d", 3)
	s.content(f, "abcd")
	s.ok(f.Sync())
	s.create("f", "new")
	s.content(f, "abcd")
	s.ok(f.Close())
	s.holds("f", "new")
}

func (s *suite) rename() {
	s.create("a", "A")
	s.create("b", "B")
	s.ok(s.fs.Rename(s.path("a"), s.path("b")))
	s.holds("b", "A")
	_, err := s.fs.Stat(s.path("a"))
	s.is(err, fs.ErrNotExist)
	s.is(s.fs.Rename(s.path("a"), s.path("c")), fs.ErrNotExist)
	s.ok(s.fs.Rename(s.path("b"), s.path("b")))
	s.holds("b", "A")
	s.ok(s.fs.MkdirAll(s.path("d"), 0o755))
	s.ok(s.fs.Rename(s.path("b"), s.path("d", "b")))
	s.holds(filepath.Join("d", "b"), "A")
	s.create("e", "E")
	if err := s.fs.Rename(s.path("e"), s.path("d")); err == nil {
		s.Fatal("a file replaced a directory")
	}
}

func (s *suite) renameDir() {
	s.ok(s.fs.MkdirAll(s.path("d", "sub"), 0o755))
	s.create(filepath.Join("d", "sub", "f"), "F")
	s.ok(s.fs.Rename(s.path("d"), s.path("e")))
	s.holds(filepath.Join("e", "sub", "f"), "F")
	if err := s.fs.Rename(s.path("e"), s.path("e", "sub", "x")); err == nil {
		s.Fatal("a directory was moved into itself")
	}
	s.ok(s.fs.MkdirAll(s.path("full", "x"), 0o755))
	if err := s.fs.Rename(s.path("e"), s.path("full")); err == nil {
		s.Fatal("a directory with content was replaced")
	}
}

func (s *suite) link() {
	s.create("a", "A")
	s.ok(s.fs.Link(s.path("a"), s.path("b")))
	f := s.open("a", os.O_RDWR)
	s.write(f, "AA", 0)
	s.holds("b", "AA")
	s.ok(f.Close())
	s.ok(s.fs.Remove(s.path("a")))
	s.holds("b", "AA")
	s.is(s.fs.Link(s.path("a"), s.path("c")), fs.ErrNotExist)
	s.create("c", "C")
	s.is(s.fs.Link(s.path("b"), s.path("c")), fs.ErrExist)
}

func (s *suite) remove() {
	s.ok(s.fs.MkdirAll(s.path("d"), 0o755))
	s.create(filepath.Join("d", "f"), "")
	if err := s.fs.Remove(s.path("d")); err == nil {
		s.Fatal("a directory with content was removed")
	}
	s.ok(s.fs.Remove(s.path("d", "f")))
	s.ok(s.fs.Remove(s.path("d")))
	s.is(s.fs.Remove(s.path("d")), fs.ErrNotExist)
}

func (s *suite) removeAll() {
	s.ok(s.fs.MkdirAll(s.path("d", "e", "f"), 0o755))
	s.create(filepath.Join("d", "e", "g"), "G")
	s.create("keep", "K")
	s.ok(s.fs.RemoveAll(s.path("d")))
	_, err := s.fs.Stat(s.path("d"))
	s.is(err, fs.ErrNotExist)
	s.ok(s.fs.RemoveAll(s.path("d")))
	s.holds("keep", "K")
}

func (s *suite) readDir() {
	for _, name := range []string{"b", "a", "c"} {
		s.create(name, name)
	}
	s.ok(s.fs.MkdirAll(s.path("aa"), 0o755))
	entries, err := s.fs.ReadDir(s.dir)
	s.ok(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		fi, err := e.Info()
		s.ok(err)
		if fi.IsDir() != (e.Name() == "aa") || e.IsDir() != fi.IsDir() || !fi.IsDir() && fi.Size() != 1 {
			s.Fatalf("%s is described as %v", e.Name(), fi)
		}
	}
	if !slices.Equal(names, []string{"a", "aa", "b", "c"}) {
		s.Fatalf("got %q", names)
	}
	_, err = s.fs.ReadDir(s.path("missing"))
	s.is(err, fs.ErrNotExist)
	if _, err = s.fs.ReadDir(s.path("a")); err == nil {
		s.Fatal("a file was listed")
	}
}

func (s *suite) mkdirAll() {
	s.ok(s.fs.MkdirAll(s.path("a", "b"), 0o755))
	s.create(filepath.Join("a", "b", "f"), "F")
	s.ok(s.fs.MkdirAll(s.path("a", "b"), 0o755))
	s.ok(s.fs.MkdirAll(s.path("a"), 0o755))
	s.holds(filepath.Join("a", "b", "f"), "F")
	if err := s.fs.MkdirAll(s.path("a", "b", "f", "g"), 0o755); err == nil {
		s.Fatal("a directory was made below a file")
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
	_ = l.Close() // must not release somebody else's lock
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

func (s *suite) realPath() {
	s.ok(s.fs.MkdirAll(s.path("d", "e"), 0o755))
	s.create(filepath.Join("d", "f"), "x")
	for _, name := range []string{"d", filepath.Join("d", "f"), "."} {
		want, err := s.fs.RealPath(s.path(name))
		s.ok(err)
		if !filepath.IsAbs(want) || want != filepath.Clean(want) {
			s.Fatalf("%q is no absolute clean path", want)
		}
		for _, other := range []string{
			s.dir + string(filepath.Separator) + string(filepath.Separator) + name, s.dir + "/./" + name, s.dir + "/d/../" + name, s.dir + "/d/e/../../" + name, want,
		} {
			got, err := s.fs.RealPath(other)
			s.ok(err)
			if got != want {
				s.Fatalf("%q is %q and %q is %q", other, got, s.path(name), want)
			}
		}
	}
	_, err := s.fs.RealPath(s.path("missing"))
	s.is(err, fs.ErrNotExist)
}

func (s *suite) bootID() {
	if a, b := s.fs.BootID(), s.fs.BootID(); a != b {
		s.Fatalf("%q and %q", a, b)
	}
}

func (s *suite) concurrent() {
	f := s.open("f", readWrite)
	const writers, size = 8, 3000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			block := bytes.Repeat([]byte{byte('a' + w)}, size)
			got := make([]byte, size)
			for range 20 {
				if _, err := f.WriteAt(block, int64(w*size)); err != nil {
					s.Error(err)
				}
				if _, err := f.ReadAt(got, int64(w*size)); err != nil && err != io.EOF || !bytes.Equal(got, block) {
					s.Errorf("writer %d reads something else: %v", w, err)
				}
				if err := f.Sync(); err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
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
