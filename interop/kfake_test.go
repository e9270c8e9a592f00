package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	kfakesModule = "github.com/twmb/franz-go/pkg/kfake"
	oursPath     = "github.com/stratalog/strata/kafkatest/kfake"
)

// TestKfakesOwnTests runs the tests of franz-go's kfake against kafkatest/kfake. They are copied
// from the module, with Strata's package in place of kfake's. kfake.txt lists the tests that are
// left out, with the reason.
func TestKfakesOwnTests(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("STRATA_LONG is not set: it takes a minute and a half")
	}
	left := readLeftOut(t)
	dir := t.TempDir()
	tests := copyKfakesTests(t, dir, left)
	require.Greater(t, tests, 250)
	writeModule(t, dir)
	run := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "KFAKE_TEMP="+dir)
		out, _ := cmd.CombinedOutput() // the output has the failures
		return out
	}
	out := run("test", "-json", "-count=1", "-parallel=4", "-timeout=9m", "-skip", left.skip(), ".")
	passed, failed, said := 0, []string(nil), map[string]string{}
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		said[e.Test] += e.Output
		switch {
		case e.Action == "pass" && e.Test != "" && !strings.Contains(e.Test, "/"):
			passed++
		case e.Action == "fail" && e.Test != "":
			failed = append(failed, e.Test)
		}
	}
	for _, name := range failed {
		t.Errorf("%s fails:\n%s", name, said[name])
	}
	require.Greater(t, passed, 250, "%s", said[""])
	t.Logf("%d tests pass, %d are left out", passed, len(left.tests))
}

// leftOut lists kfake's tests and files that are not run against kafkatest/kfake.
type leftOut struct {
	files, decls map[string]bool // not copied: they test internals of kfake
	tests        []string        // copied, and skipped, with the subtests below them
}

// skip returns the pattern of go test's -skip flag.
func (l leftOut) skip() string {
	var patterns []string
	for _, name := range l.tests {
		parts := strings.Split(name, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	return strings.Join(patterns, "|")
}

// readLeftOut reads kfake.txt. The head of that file describes the format.
func readLeftOut(t *testing.T) leftOut {
	t.Helper()
	f, err := os.Open("kfake.txt")
	require.NoError(t, err)
	defer f.Close()
	l := leftOut{files: map[string]bool{}, decls: map[string]bool{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		head, reason, _ := strings.Cut(line, ": ")
		kind, name, _ := strings.Cut(head, " ")
		require.NotEmpty(t, strings.TrimSpace(reason), "a reason: %s", line)
		switch kind {
		case "file":
			l.files[name] = true
		case "inside":
			l.decls[name] = true
		case "deviates":
			l.tests = append(l.tests, name)
		default:
			t.Fatalf("kfake.txt: %s", line)
		}
	}
	return l
}

// copyKfakesTests writes kfake's test files to dir as tests of kafkatest/kfake, except those in
// left. It returns the number of tests.
func copyKfakesTests(t *testing.T, dir string, left leftOut) (tests int) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", kfakesModule)
	list.Dir = "../bench" // its go.mod requires the module
	src, err := list.Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(src)), "*_test.go"))
	require.NoError(t, err)
	for _, path := range files {
		if left.files[filepath.Base(path)] {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		file.Name.Name = "kfaketests"
		var keep []ast.Decl
		for _, d := range file.Decls {
			if declares(d, left.decls) {
				continue
			}
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests++
			}
			keep = append(keep, d)
		}
		file.Decls = keep
		importOurs(file)
		var out bytes.Buffer
		require.NoError(t, format.Node(&out, files, file))
		out.WriteString("\nvar _ = NewCluster\n") // uses the import
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), out.Bytes(), 0o644))
	}
	return tests
}

// declares reports whether d declares one of the names, or a method of one.
func declares(d ast.Decl, names map[string]bool) bool {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return names[d.Name.Name]
		}
		of := d.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		id, ok := of.(*ast.Ident)
		return ok && names[id.Name]
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok && names[s.Name.Name] {
				return true
			}
		}
	}
	return false
}

// importOurs adds a dot import of kafkatest/kfake, and removes unused imports.
func importOurs(file *ast.File) {
	used := map[string]bool{}
	for _, d := range file.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil { // not a variable
					used[x.Name] = true
				}
			}
			return true
		})
	}
	ours := &ast.ImportSpec{Name: ast.NewIdent("."), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(oursPath)}}
	decls := []ast.Decl{&ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{ours}}}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			decls = append(decls, d)
			continue
		}
		for _, s := range g.Specs {
			i := s.(*ast.ImportSpec)
			path, _ := strconv.Unquote(i.Path.Value)
			name := filepath.Base(path)
			if i.Name != nil {
				name = i.Name.Name
			}
			if used[name] || name == "_" {
				decls = append([]ast.Decl{&ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{i}}}, decls...)
			}
		}
	}
	file.Decls = decls
}

// writeModule makes dir a module with the requirements of this one. It adds the helpers that
// kfake's tests use from inside their package.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	text := strings.Replace(string(mod), "module github.com/stratalog/strata/interop", "module kfaketests", 1)
	text = strings.Replace(text, "=> ../", "=> "+root, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644))
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
	helpers, err := os.ReadFile(filepath.Join("testdata", "kfake_helpers.go.txt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "helpers_of_ours_test.go"), helpers, 0o644))
}
