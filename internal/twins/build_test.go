package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckRefusesEditsThatDoNotBuild(t *testing.T) {
	for name, c := range map[string]struct{ edit, want string }{
		"a name that is not there":         {"-\tc := a + b\n+\tc := a + d\n", "a.txt:1: does not build: calc.go:6:11: undefined: d"},
		"a variable that nothing uses":     {"-\treturn c\n+\treturn a\n", "declared and not used: c"},
		"a function that others use":       {"-// Sum returns a+b.\n-func Sum(a, b int) int {\n+func Sum() int {\n+\ta, b := 1, 2\n", ""},
		"an import that is not used":       {"-package calc\n+package calc\n+\n+import \"strconv\"\n", `"strconv" imported and not used`},
		"a package that nothing imports":   {"-package calc\n+package calc\n+\n+import \"container/ring\"\n+\n+var _ = ring.New(1)\n", ""},
		"what another file declares":       {"-\treturn a - b\n+\treturn less(a, b)\n", ""},
		"what another file declares, else": {"-\treturn a - b\n+\treturn less(a)\n", "not enough arguments in call to less"},
		"a package of the module":          {"-package calc\n+package calc\n+\n+import \"example.com/calc/half\"\n+\n+var _ = half.Of(\"\")\n", "cannot use \"\""},
	} {
		t.Run(name, func(t *testing.T) {
			root := copyModule(t, "row 1\nbreaks sums\ntest calc.TestSum\nfile calc.go\n"+c.edit)
			require.NoError(t, os.WriteFile(filepath.Join(root, "less.go"), []byte(`package calc

import "strconv"

func less(a, b int) int { n, _ := strconv.Atoi(strconv.Itoa(a - b)); return n }
`), 0o644))
			_, err := twins(t, root, "-check")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// The go command compiles every package that it can before it fails: once for the tree, not for
// every twin.
func TestCheckOfATreeThatDoesNotBuildAsksOnce(t *testing.T) {
	root := copyModule(t, goodTwin+"\n"+strings.ReplaceAll(goodTwin, "sums", "sums again"))
	require.NoError(t, os.WriteFile(filepath.Join(root, "broken.go"), []byte("package calc\n\nvar Total int = \"none\"\n"), 0o644))
	_, err := twins(t, root, "-check", "-strict")
	require.ErrorIs(t, err, errModule)
	require.ErrorContains(t, err, "broken.go:3:")
	require.Equal(t, 1, strings.Count(err.Error(), "go list"), err)
}

// One of two packages may need a declaration that the edit adds to the other.
func TestEditOfTwoPackagesIsLeftToTheCompiler(t *testing.T) {
	_, err := twins(t, copyModule(t, "row 1\nbreaks sums\ntest calc.TestSum\n"+
		"file calc.go\n-package calc\n+package calc\n+\n+import \"example.com/calc/half\"\n@@\n-\tc := a + b\n+\tc := half.Less(a, b)\n"+
		"file half/half.go\n-package half\n+package half\n+\n+func Less(a, b int) int { return a - b }\n"), "-check")
	require.NoError(t, err)
}
