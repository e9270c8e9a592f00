package layering

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shownToUsers are tests that users copy. Users have no internal packages.
var shownToUsers = []string{"kafkatest/recipes_test.go", "kafkatest/example_test.go", "internal/synctest/synctest_test.go"}

func TestBubblesOfTestsEnd(t *testing.T) {
	root := filepath.Join("..", "..")
	bounded := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && slices.Contains([]string{"examples", "bench", "interop", ".git"}, name):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") || slices.Contains(shownToUsers, name):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imp := range file.Imports {
			require.NotEqual(t, `"testing/synctest"`, imp.Path.Value, "%s: import %s/internal/synctest, whose bubbles end", name, module)
			if imp.Path.Value == `"`+module+`/internal/synctest"` {
				bounded++
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, bounded, 200)
}
