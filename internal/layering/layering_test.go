package layering

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/stratalog/strata"

func TestImportsOnlyGoDownwards(t *testing.T) {
	row := map[string]int{}
	for i, names := range Rows {
		for _, n := range names {
			row[n] = i + 1
		}
	}
	for pkg, imports := range ourImports(t) {
		from, ok := rowOf(row, pkg)
		require.True(t, ok, "package %q has no row in layering.Rows", pkg)
		for _, imp := range imports {
			to, _ := rowOf(row, imp)
			if from == 0 && to == 0 {
				continue // internal packages may build on each other
			}
			require.Less(t, to, from, "%s must not import %s", pkg, imp)
		}
	}
}

func TestNoPackageHasATellNothingName(t *testing.T) {
	for pkg := range ourImports(t) {
		name := pkg[strings.LastIndex(pkg, "/")+1:]
		require.NotContains(t, []string{"types", "common", "util", "utils", "helpers", "base", "misc"}, name)
	}
}

// rowOf returns the row of a package: 0 for internal packages, the top for programs, and the row
// behind its parent's for a test kit such as vfs/vfstest.
func rowOf(row map[string]int, pkg string) (int, bool) {
	if r, ok := row[pkg]; ok {
		return r, true
	}
	if strings.HasPrefix(pkg, "examples/internal/") {
		return len(Rows), true
	}
	if pkg == "examples" || strings.HasPrefix(pkg, "examples/") {
		return len(Rows) + 1, true
	}
	if strings.HasPrefix(pkg, "internal/") {
		return 0, true
	}
	if at := strings.LastIndex(pkg, "/"); at > 0 && strings.HasSuffix(pkg, "test") {
		r, ok := row[pkg[:at]]
		return r + 1, ok // may import the package that it tests
	}
	return 0, false
}

// ourImports returns the non-test imports of each package of the module that are in the module.
func ourImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")
		all[pkg] = nil
		for _, imp := range fields[1:] {
			if imp == module || strings.HasPrefix(imp, module+"/") {
				all[pkg] = append(all[pkg], strings.TrimPrefix(strings.TrimPrefix(imp, module), "/"))
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}
