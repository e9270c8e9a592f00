package main

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListNamesEveryExampleOnOneScreen(t *testing.T) {
	var out strings.Builder
	require.NoError(t, list(&out, readme))
	var listed, there []string
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) +\S.+$`).FindAllStringSubmatch(out.String(), -1) {
		listed = append(listed, m[1])
	}
	dirs, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, d := range dirs {
		if d.IsDir() && d.Name() != "internal" {
			there = append(there, d.Name())
		}
	}
	require.ElementsMatch(t, there, listed)
	for line := range strings.SplitSeq(out.String(), "\n") {
		require.LessOrEqual(t, len(line), 110)
	}
}

//go:embed */*.go
var sources embed.FS

// portable are the examples that need no brokers in the same process.
var portable = []string{
	"confirm", "delivery", "exactlyonce", "groups", "grow", "jobs", "ordering", "outbox", "partitioners", "quickstart", "readers",
	"repartition", "timetravel", "workers",
}

// usage returns the comment of an example's package.
func usage(t *testing.T, example string) string {
	t.Helper()
	text, err := sources.ReadFile(example + "/main.go")
	require.NoError(t, err)
	comment, _, found := strings.Cut(string(text), "\npackage main")
	require.True(t, found, example)
	return comment
}

// Checklist row CL3.
func TestFunctionsOfExamplesTakeAClient(t *testing.T) {
	for _, example := range portable {
		files, err := fs.Glob(sources, example+"/*.go")
		require.NoError(t, err)
		takesClient := false
		for _, name := range files {
			text, err := sources.ReadFile(name)
			require.NoError(t, err)
			f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					require.NotEqual(t, "Cluster", s.Sel.Name, name)
					takesClient = takesClient || s.Sel.Name == "Client"
				}
				return true
			})
		}
		require.True(t, takesClient, example)
		require.Contains(t, usage(t, example), " [-kafka HOST:PORT]", example)
	}
}
