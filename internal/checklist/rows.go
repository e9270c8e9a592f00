package checklist

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// File is the path of the rows from the root of the module.
var File = filepath.Join("internal", "checklist", "rows.txt")

// Row is a line of File.
type Row struct {
	Name      string // letters and a number; unique
	Behaviour string
	Tests     []string // package.Test; nil where Without is set
	Without   string   // why no test is named: "open: ..." or "docs: ..."
}

var (
	rowName = regexp.MustCompile(`^[A-Z]*\d+$`)
	rowTest = regexp.MustCompile(`^[a-z0-9_/]+\.(?:Test|Example|Fuzz)\w+$`)
)

// Read returns the rows of the module at root, in their order. It returns an error if a line is not
// a row, or names no test, and if two rows have the same name.
func Read(root string) ([]Row, error) {
	f, err := os.Open(filepath.Join(root, File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		r, err := parse(lines.Text())
		if err == nil && seen[r.Name] {
			err = fmt.Errorf("row %s is there twice", r.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", File, n, err)
		}
		seen[r.Name] = true
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

func parse(line string) (Row, error) {
	parts := strings.Split(line, " | ")
	if len(parts) != 3 || !rowName.MatchString(parts[0]) {
		return Row{}, fmt.Errorf("not a row: name | behaviour | tests")
	}
	r := Row{Name: parts[0], Behaviour: parts[1]}
	if strings.HasPrefix(parts[2], "open: ") || strings.HasPrefix(parts[2], "docs: ") {
		r.Without = parts[2]
		return r, nil
	}
	r.Tests = strings.Split(parts[2], ", ")
	for _, t := range r.Tests {
		if !rowTest.MatchString(t) {
			return Row{}, fmt.Errorf("row %s: %q is not a package.Test", r.Name, t)
		}
	}
	return r, nil
}
