package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratalog/strata/vfs"
)

// RunReadOnly checks that readOnly(fsys) reads the files of fsys and changes nothing. Every method
// of vfs.FS and vfs.File, except known read-only ones, must fail with an error matching
// vfs.ErrReadOnly. It must leave the tree below dir, an empty directory of fsys, unchanged,
// modification times included. The methods are found by reflection, so that new methods of the
// interfaces are checked as well.
func RunReadOnly(t *testing.T, fsys vfs.FS, dir string, readOnly func(vfs.FS) vfs.FS) {
	s := &suite{T: t, fs: fsys, dir: dir}
	s.ok(fsys.MkdirAll(s.path("sub", "empty"), 0o755))
	s.create("f", "content")
	s.create(filepath.Join("sub", "g"), "more")
	ro := readOnly(fsys)
	before := s.tree()

	f, err := ro.OpenFile(s.path("f"), os.O_RDONLY, 0)
	s.ok(err)
	s.content(f, "content")
	entries, err := ro.ReadDir(dir)
	s.ok(err)
	if len(entries) != 2 {
		t.Fatalf("lists %v", entries)
	}
	info, err := ro.Stat(s.path("f"))
	s.ok(err)
	if info.Size() != int64(len("content")) || ro.BootID() != fsys.BootID() || f.Name() != s.path("f") {
		t.Fatalf("wrong size %d, boot id %q or name %q", info.Size(), ro.BootID(), f.Name())
	}

	changes := 0
	for _, x := range []struct {
		of    reflect.Type
		value any
		reads string
	}{
		{reflect.TypeFor[vfs.FS](), ro, "ReadDir Stat RealPath BootID OpenFile"},
		{reflect.TypeFor[vfs.File](), f, "ReadAt Close Name Size"},
	} {
		for i := range x.of.NumMethod() {
			name := x.of.Method(i).Name
			if slices.Contains(strings.Fields(x.reads), name) {
				continue
			}
			for _, target := range []string{"f", "new", "sub", filepath.Join("sub", "empty"), filepath.Join("missing", "new")} {
				changes++
				s.refused(before, name, call(reflect.ValueOf(x.value).MethodByName(name), s.path(target), s.path("other")))
			}
		}
	}
	flags := []int{os.O_WRONLY, os.O_RDWR, os.O_CREATE, os.O_EXCL, os.O_TRUNC, os.O_APPEND}
	for set := 1; set < 1<<len(flags); set++ {
		flag := os.O_RDONLY
		for i, bit := range flags {
			if set&(1<<i) != 0 {
				flag |= bit
			}
		}
		for _, target := range []string{"f", "new"} {
			changes++
			g, err := ro.OpenFile(s.path(target), flag, 0o644)
			if err == nil {
				_ = g.Close()
			}
			s.refused(before, fmt.Sprintf("OpenFile with flags %#x", flag), err)
		}
	}
	s.ok(f.Close())
	s.create("f", "changed by another")
	got, err := vfs.ReadFile(ro, s.path("f"))
	s.ok(err)
	if string(got) != "changed by another" {
		t.Fatalf("what another changes is not seen: %q", got)
	}
	t.Logf("%d changes refused", changes)
}

// call calls a method with arguments made up by type; names are name and other, in this order. It
// returns the error.
func call(method reflect.Value, name, other string) error {
	names := []string{name, other}
	var args []reflect.Value
	for i := range method.Type().NumIn() {
		switch in := method.Type().In(i); in {
		case reflect.TypeFor[string]():
			args, names = append(args, reflect.ValueOf(names[0])), names[1:]
		case reflect.TypeFor[[]byte]():
			args = append(args, reflect.ValueOf([]byte("x")))
		case reflect.TypeFor[[][]byte]():
			args = append(args, reflect.ValueOf([][]byte{[]byte("x")}))
		case reflect.TypeFor[int64]():
			args = append(args, reflect.ValueOf(int64(3)))
		case reflect.TypeFor[fs.FileMode]():
			args = append(args, reflect.ValueOf(fs.FileMode(0o755)))
		case reflect.TypeFor[time.Time]():
			args = append(args, reflect.ValueOf(time.Unix(1, 0)))
		default:
			return fmt.Errorf("the suite has no argument of type %v", in)
		}
	}
	results := method.Call(args)
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

func (s *suite) refused(before, what string, err error) {
	s.Helper()
	if !errors.Is(err, vfs.ErrReadOnly) || !errors.As(err, new(*fs.PathError)) {
		s.Fatalf("%s: got error %v, want a *fs.PathError matching %v", what, err, vfs.ErrReadOnly)
	}
	if now := s.tree(); now != before {
		s.Fatalf("%s changed the tree from\n%s\nto\n%s", what, before, now)
	}
}

// tree describes everything below dir: names, content, modification times.
func (s *suite) tree() string {
	s.Helper()
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := s.fs.ReadDir(dir)
		s.ok(err)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := s.fs.Stat(path)
			s.ok(err)
			fmt.Fprintf(&b, "%s %v %d", path, info.Mode(), info.ModTime().UnixNano())
			if e.IsDir() {
				b.WriteByte('\n')
				walk(path)
				continue
			}
			data, err := vfs.ReadFile(s.fs, path)
			s.ok(err)
			fmt.Fprintf(&b, " %q\n", data)
		}
	}
	walk(s.dir)
	return b.String()
}
