package commandtable

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

// Jobs is the table of all jobs, for Parse.
//
//go:embed jobs.md
var Jobs string

// A Row is one job.
type Row struct {
	Job   string
	Cells map[string]string // the command of each tool, by its column; "" if it has none
}

// Columns are the tools in jobs.md.
var Columns = []string{"kcat", "Kafka", "strata"}

// Parse returns the rows of all tables of a page, in order. Every cell is a dash or one command in
// backticks, which a remark in parentheses may follow.
func Parse(page string) ([]Row, error) {
	var rows []Row
	var errs []error
	seen := map[string]bool{}
	for i, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| job |") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		if len(cells) != 1+len(Columns) {
			errs = append(errs, fmt.Errorf("line %d: %d cells", i+1, len(cells)))
			continue
		}
		r := Row{strings.TrimSpace(cells[0]), map[string]string{}}
		for c, name := range Columns {
			command, err := cell(strings.ReplaceAll(strings.TrimSpace(cells[1+c]), "\x00", "|"))
			if err != nil {
				errs = append(errs, fmt.Errorf("line %d, %s: %w", i+1, name, err))
			}
			r.Cells[name] = command
		}
		if seen[r.Job] {
			errs = append(errs, fmt.Errorf("line %d: %q is there twice", i+1, r.Job))
		}
		seen[r.Job] = true
		rows = append(rows, r)
	}
	return rows, errors.Join(errs...)
}

func cell(text string) (string, error) {
	if text == "-" {
		return "", nil
	}
	command, remark, ok := strings.Cut(strings.TrimPrefix(text, "`"), "`")
	if !strings.HasPrefix(text, "`") || !ok || remark != "" && !strings.HasPrefix(remark, " (") {
		return "", fmt.Errorf("%q is neither a dash nor a command", text)
	}
	return command, nil
}
