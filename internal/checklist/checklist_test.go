package checklist

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastRow is the least number of rows of each kind: behaviours have a bare number, others letters
// before it. docs/checklist.md lists them all.
var lastRow = map[string]int{"": 155, "D": 24, "R": 13, "G": 9, "W": 15, "L": 8}

var (
	rowPattern  = regexp.MustCompile(`^\| ([A-Z]*)(\d+) \| (.+) \| (.+) \|$`)
	testPattern = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Example|Fuzz)\\w+)`")
)

func TestEveryRowNamesATestThatExistsOrIsOpen(t *testing.T) {
	root := filepath.Join("..", "..")
	tests := testsOf(t, root)
	f, err := os.Open(filepath.Join(root, "docs", "checklist.md"))
	require.NoError(t, err)
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := rowPattern.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		row := m[1] + m[2]
		require.False(t, seen[row], "row %s is there twice", row)
		seen[row] = true
		named := testPattern.FindAllStringSubmatch(m[4], -1)
		if strings.HasPrefix(m[4], "open: ") || strings.HasPrefix(m[4], "docs: ") {
			continue
		}
		require.NotEmpty(t, named, "row %s names no test", row)
		for _, n := range named {
			require.True(t, tests[n[1]][n[2]], "row %s names %s.%s, which does not exist", row, n[1], n[2])
		}
	}
	require.NoError(t, lines.Err())
	last := maps.Clone(lastRow)
	for row := range seen {
		kind := strings.TrimRight(row, "0123456789")
		n, err := strconv.Atoi(row[len(kind):])
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
