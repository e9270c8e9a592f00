package kafka

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The doc comment of each handler has the key and the versions of its API. A reader finds them
// there, and they are the versions that are served.
func TestHandlersSayWhichVersionsTheyServe(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	docs := map[string]string{} // of functions and methods of call, on one line
	var table *ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		if name == "apis.go" {
			table = f
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && (fn.Recv == nil || types.ExprString(fn.Recv.List[0].Type) == "*call") {
				docs[fn.Name.Name] = strings.Join(strings.Fields(fn.Doc.Text()), " ")
			}
		}
	}
	handlers := handlersOf(t, table)
	require.Len(t, handlers, len(apis))
	for i, a := range apis {
		versions := fmt.Sprintf("versions %d to %d", a.min, a.max)
		switch a.max - a.min {
		case 0:
			versions = fmt.Sprintf("version %d", a.min)
		case 1:
			versions = fmt.Sprintf("versions %d and %d", a.min, a.max)
		}
		require.Regexp(t, regexp.MustCompile(fmt.Sprintf(`[Kk]ey %d\b[^.]*\b%s\b`, a.key, versions)), docs[handlers[i]], "%v is served by %s", a.key, handlers[i])
	}
}

// handlersOf returns the names of the functions that serve the APIs, in the order of the table. An
// API without serve has start.
func handlersOf(t *testing.T, table *ast.File) (names []string) {
	ast.Inspect(table, func(n ast.Node) bool {
		entry, ok := n.(*ast.CompositeLit)
		if !ok || entry.Type != nil { // not the table
			return true
		}
		by := map[string]string{}
		for _, e := range entry.Elts {
			kv := e.(*ast.KeyValueExpr)
			switch v := kv.Value.(type) {
			case *ast.Ident:
				by[kv.Key.(*ast.Ident).Name] = v.Name
			case *ast.CallExpr: // handle((*call).name)
				by[kv.Key.(*ast.Ident).Name] = v.Args[0].(*ast.SelectorExpr).Sel.Name
			}
		}
		name := by["serve"]
		if name == "" {
			name = by["start"]
		}
		require.NotEmpty(t, name)
		names = append(names, name)
		return false
	})
	return names
}
