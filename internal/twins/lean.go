package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// leanTests returns the test files of the packages whose tests t names, without the other tests, by
// path from the root. Most of the time of a twin is spent on compiling tests.
func (tr *tree) leanTests(t *twin) (map[string][]byte, error) {
	wanted := map[string]map[string]bool{} // by directory: the tests
	for _, n := range t.tests {
		dir, err := tr.dirOf(n.pkg)
		if err != nil {
			return nil, err
		}
		if wanted[dir] == nil {
			wanted[dir] = map[string]bool{}
		}
		wanted[dir][n.top()] = true
	}
	out := map[string][]byte{}
	for dir, tests := range wanted {
		paths, err := filepath.Glob(filepath.Join(tr.root, filepath.FromSlash(dir), "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range paths {
			src, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			lean, err := leanFile(src, tests)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[path.Join(dir, filepath.Base(name))] = lean
		}
	}
	return out, nil
}

// leanFile returns src without the tests that are not wanted; lines keep their numbers. All other
// declarations stay: helpers, used or not, and code that runs when the binary starts. If one of
// them needs a removed test, the compiler reports it.
func leanFile(src []byte, wanted map[string]bool) ([]byte, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lean := slices.Clone(src)
	used := map[string]bool{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && isTest(fn.Name.Name) && !wanted[fn.Name.Name] {
			blank(lean[fset.Position(fn.Pos()).Offset:fset.Position(fn.End()).Offset])
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					used[x.Name] = true
				}
			}
			return true
		})
	}
	for _, imp := range slices.Backward(f.Imports) { // from the end: offsets before it stay valid
		name := importName(imp)
		if name == "." || name == "_" || used[name] {
			continue
		}
		from, to := fset.Position(imp.Pos()).Offset, fset.Position(imp.Path.Pos()).Offset
		lean = slices.Replace(lean, from, to, []byte("_ ")...)
	}
	return lean, nil
}

var testFunc = regexp.MustCompile(`^(?:Test|Benchmark|Example|Fuzz)(?:[^a-z]|$)`)

// isTest reports whether the function is a test, benchmark, example or fuzz test. TestMain is not.
func isTest(name string) bool { return testFunc.MatchString(name) && name != "TestMain" }

// blank overwrites b, but not its line ends.
func blank(b []byte) {
	for i, c := range b {
		if c != '\n' {
			b[i] = ' '
		}
	}
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importName returns the name of an imported package in a file. Without an explicit name it is the
// last element of the path, apart from a major version.
func importName(imp *ast.ImportSpec) string {
	if imp.Name != nil {
		return imp.Name.Name
	}
	p := strings.Trim(imp.Path.Value, "\"`")
	if base := path.Base(p); !majorVersion.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(p))
}
