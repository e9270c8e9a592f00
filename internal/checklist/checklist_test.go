package checklist

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastRow is the least number of rows of each kind: rows of behaviours have a bare number, rows of
// faults and practice letters before it.
var lastRow = map[string]int{"": 155, "D": 24, "R": 13, "G": 9, "W": 15, "L": 8}

func TestEveryRowNamesTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	rows, err := Read(root)
	require.NoError(t, err)
	tests := testsOf(t, root)
	last, seen := maps.Clone(lastRow), map[string]bool{}
	for _, r := range rows {
		for _, named := range r.Tests {
			pkg, test, _ := strings.Cut(named, ".")
			require.True(t, tests[pkg][test], "row %s names %s, which does not exist", r.Name, named)
		}
		seen[r.Name] = true
		kind := strings.TrimRight(r.Name, "0123456789")
		n, err := strconv.Atoi(r.Name[len(kind):])
		require.NoError(t, err)
		last[kind] = max(last[kind], n)
	}
	for kind, last := range last {
		for n := 1; n <= last; n++ {
			row := kind + strconv.Itoa(n)
			require.True(t, seen[row], "row %s is missing", row)
		}
	}
}

func TestLinesThatAreNotRowsAreRefused(t *testing.T) {
	for _, line := range []string{
		"1 | two parts", "1 | a | b.TestX | c", "x1 | a | b.TestX", "1 | a | TestX", "1 | a | b.TestX,c.TestY", "1 | a | b.TestX and more", "1 | a | b.Benchmark",
	} {
		_, err := parse(line)
		require.Error(t, err, line)
	}
	r, err := parse("R2 | a, b | b.TestX, c/d.FuzzY")
	require.NoError(t, err)
	require.Equal(t, Row{Name: "R2", Behaviour: "a, b", Tests: []string{"b.TestX", "c/d.FuzzY"}}, r)
	r, err = parse("3 | a | open: later")
	require.NoError(t, err)
	require.Equal(t, Row{Name: "3", Behaviour: "a", Without: "open: later"}, r)
}

var funcPattern = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w+)\(`)

// testsOf returns the names of all tests below root, by package directory and by its last element.
func testsOf(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		// "strata" is the root, "cmd/strata" the command
		for _, pkg := range []string{rel, filepath.Base(rel)} {
			switch pkg {
			case ".":
				pkg = "strata"
			case "strata":
				continue
			}
			if all[pkg] == nil {
				all[pkg] = map[string]bool{}
			}
			for _, m := range funcPattern.FindAllSubmatch(src, -1) {
				all[pkg][string(m[1])] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return all
}
