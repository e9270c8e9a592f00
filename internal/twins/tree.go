package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/checklist"
)

// tree has the names of the tests in the code, and the rows of its checklist.
type tree struct {
	root  string                       // absolute
	name  string                       // last element of the module path: the root package's name
	tests map[string]map[string]string // by directory and name: the file of the test
	rows  []checklist.Row
}

var funcLine = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)

func readTree(root string) (*tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("run this in the module's root: %w", err)
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	tr := &tree{root: root, name: path[strings.LastIndex(path, "/")+1:]}
	if tr.tests, err = testsBelow(root); err != nil {
		return nil, err
	}
	if tr.rows, err = checklist.Read(root); err != nil {
		return nil, err
	}
	return tr, nil
}

// testsBelow finds the tests of all packages below root, including nested modules.
func testsBelow(root string) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		dir := filepath.ToSlash(filepath.Dir(rel))
		if all[dir] == nil {
			all[dir] = map[string]string{}
		}
		for _, m := range funcLine.FindAllSubmatch(src, -1) {
			all[dir][string(m[1])] = rel
		}
		return nil
	})
	return all, err
}

// dirOf returns the directory of a package as a twin or the checklist names it. pkg is the
// directory itself, the module's name for the root, or the last elements of a directory if they are
// unique.
func (tr *tree) dirOf(pkg string) (string, error) {
	if pkg == tr.name {
		return ".", nil
	}
	if tr.tests[pkg] != nil {
		return pkg, nil
	}
	var found []string
	for dir := range tr.tests {
		if strings.HasSuffix(dir, "/"+pkg) {
			found = append(found, dir)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no package %s has tests", pkg)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%s may be any of %s", pkg, strings.Join(found, ", "))
	}
}

// edited returns the new content of each file that t edits, by path from the root.
func (tr *tree) edited(t *twin) (map[string][]byte, error) {
	out := map[string][]byte{}
	var errs []error
	for _, e := range t.edits {
		src, ok := out[e.file]
		if !ok {
			var err error
			if src, err = os.ReadFile(filepath.Join(tr.root, filepath.FromSlash(e.file))); err != nil {
				errs = append(errs, fmt.Errorf("%s.txt:%d: %w", t.area, e.line, err))
				continue
			}
		}
		next, err := apply(src, e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.txt:%d: %w", t.area, e.line, err))
			continue
		}
		out[e.file] = next
	}
	for file, src := range out {
		if _, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution); err != nil {
			errs = append(errs, fmt.Errorf("%v: with the edit: %w", t, err))
		}
	}
	return out, errors.Join(errs...)
}

// apply returns src with the edit applied. Lines are compared without the blanks at both ends.
func apply(src []byte, e edit) ([]byte, error) {
	lines := strings.Split(string(src), "\n")
	at, times := 0, 0
	for i := 0; i+len(e.old) <= len(lines); i++ {
		if matches(lines[i:], e.old) {
			at, times = i, times+1
		}
	}
	if times != 1 {
		return nil, fmt.Errorf("%s: %d places read %q", e.file, times, strings.TrimSpace(strings.Join(e.old, "\n")))
	}
	return []byte(strings.Join(slices.Concat(lines[:at], e.new, lines[at+len(e.old):]), "\n")), nil
}

func matches(lines, old []string) bool {
	for i, o := range old {
		if strings.TrimSpace(lines[i]) != strings.TrimSpace(o) {
			return false
		}
	}
	return true
}
