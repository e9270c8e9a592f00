package vfstest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
)

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

// zeros overwrites data of many pages with zeros: all of it, a part of a page, the bytes behind
// the data.
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
