package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A builder checks whether edited packages still build, without running the compiler. It checks the
// edited files against the declarations of the rest of their package and of its unedited imports.
type builder struct {
	tr      *tree
	fset    *token.FileSet
	modules map[string]*goModule // by directory, from the root
}

// errModule reports that a module does not build without an edit. It ends the check: the go command
// would compile the module again for every twin, and fail again.
var errModule = errors.New("the tree does not build without a twin")

// goModule has the output of go list for a module.
type goModule struct {
	packages map[string]*listed // by directory, from the tree's root
	exports  map[string]string  // files with export data, by import path, of all imported packages
	imports  types.Importer     // reads exports
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	declared                []*ast.File // files without function bodies, in the order of GoFiles
}

func newBuilder(tr *tree) *builder {
	return &builder{tr: tr, fset: token.NewFileSet(), modules: map[string]*goModule{}}
}

// check returns the compiler's errors for the files that a twin edits. It does not check edits of
// several packages: one may need an edited declaration of another.
func (b *builder) check(ctx context.Context, edited map[string][]byte) error {
	dir := ""
	for file := range edited {
		if dir != "" && dir != path.Dir(file) {
			return nil
		}
		dir = path.Dir(file)
	}
	m, err := b.moduleOf(ctx, dir)
	if err != nil || m.packages[dir] == nil { // go list does not have the package
		return err
	}
	pkg := m.packages[dir]
	if err := b.declare(pkg); err != nil {
		return err
	}
	files := slices.Clone(pkg.declared)
	for i, name := range pkg.GoFiles {
		src, ok := edited[path.Join(dir, name)]
		if !ok {
			continue
		}
		if files[i], err = parser.ParseFile(b.fset, path.Join(dir, name), src, parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	for _, f := range files {
		for _, imp := range f.Imports {
			if name, _ := strconv.Unquote(imp.Path.Value); name != "unsafe" && m.exports[name] == "" {
				return nil // a new import of the module: there is no export data for it
			}
		}
	}
	var errs []error
	cfg := types.Config{Importer: m.imports, Error: func(err error) {
		var te types.Error
		// in files without function bodies, imports may be unused
		if errors.As(err, &te) && edited[te.Fset.Position(te.Pos).Filename] != nil {
			errs = append(errs, err)
		}
	}}
	_, _ = cfg.Check(pkg.ImportPath, b.fset, files, nil)
	return errors.Join(errs...)
}

// moduleOf returns the module that a directory belongs to.
func (b *builder) moduleOf(ctx context.Context, dir string) (*goModule, error) {
	for dir != "." {
		if _, err := os.Stat(filepath.Join(b.tr.root, filepath.FromSlash(dir), "go.mod")); err == nil {
			break
		}
		dir = path.Dir(dir)
	}
	if b.modules[dir] == nil {
		m, err := b.list(ctx, dir)
		if err != nil {
			return nil, err
		}
		b.modules[dir] = m
	}
	return b.modules[dir], nil
}

// declare parses the files of a package, once.
func (b *builder) declare(pkg *listed) error {
	for _, name := range pkg.GoFiles[len(pkg.declared):] {
		f, err := parser.ParseFile(b.fset, filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
		}
		pkg.declared = append(pkg.declared, f)
	}
	return nil
}

// list runs go list for the packages of a module and the export data of their imports.
func (b *builder) list(ctx context.Context, dir string) (*goModule, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	cmd.Dir = filepath.Join(b.tr.root, filepath.FromSlash(dir))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: go list in %s: %w: %s", errModule, cmd.Dir, err, stderr.String())
	}
	m := &goModule{packages: map[string]*listed{}, exports: map[string]string{}}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		m.exports[p.ImportPath] = p.Export
		if rel, err := filepath.Rel(b.tr.root, p.Dir); err == nil && !strings.HasPrefix(rel, "..") {
			m.packages[filepath.ToSlash(rel)] = p
		}
	}
	m.imports = importer.ForCompiler(b.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(m.exports[path]) })
	return m, nil
}
