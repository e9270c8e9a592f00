package vfstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

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
	s.ok(s.fs.MkdirAll(s.path("e-next"), 0o755))
	s.ok(s.fs.Rename(s.path("e"), s.path("e-next", "e"))) // its name only begins with the other's
	s.holds(filepath.Join("e-next", "e", "sub", "f"), "F")
	s.ok(s.fs.Rename(s.path("e-next", "e"), s.path("e")))
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
