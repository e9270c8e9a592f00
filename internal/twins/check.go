package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/checklist"
)

// check checks every twin without running a test. Each edit must apply and build, and the tests
// must exist. The checklist row that a twin claims to break must name one of its tests. It ends at
// once if a module does not build without an edit.
func (tr *tree) check(ctx context.Context, twins []*twin) error {
	var errs []error
	b := newBuilder(tr)
	for _, t := range twins {
		edited, err := tr.edited(t)
		if err != nil {
			errs = append(errs, err)
		} else if err := b.check(ctx, edited); errors.Is(err, errModule) {
			return err
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%v: does not build: %w", t, err))
		}
		errs = append(errs, tr.checkTests(t), tr.checkRows(t))
	}
	return errors.Join(errs...)
}

func (tr *tree) checkTests(t *twin) error {
	var errs []error
	for _, n := range t.tests {
		dir, err := tr.dirOf(n.pkg)
		if err == nil && tr.tests[dir][n.top()] == "" {
			err = fmt.Errorf("%v does not exist", n)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", t, err))
		}
	}
	return errors.Join(errs...)
}

func (tr *tree) checkRows(t *twin) error {
	var errs []error
	for _, name := range t.rows {
		if strings.Contains(name, " ") { // a promise
			continue
		}
		i := slices.IndexFunc(tr.rows, func(r checklist.Row) bool { return r.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("%v: the checklist has no row %s", t, name))
		} else if named := tr.rows[i].Tests; len(named) > 0 && !tr.namesOneOf(named, t.tests) {
			errs = append(errs, fmt.Errorf("%v: row %s of the checklist names none of %v", t, name, t.tests))
		}
	}
	return errors.Join(errs...)
}

func (tr *tree) namesOneOf(named []string, tests []testName) bool {
	for _, s := range named {
		pkg, name, _ := strings.Cut(s, ".")
		dir, err := tr.dirOf(pkg)
		for _, n := range tests {
			if other, err2 := tr.dirOf(n.pkg); err == nil && err2 == nil && other == dir && n.top() == name {
				return true
			}
		}
	}
	return false
}

// printMissing lists the rows that name a test and have no twin, and returns their number.
func (tr *tree) printMissing(w io.Writer, twins []*twin) int {
	have := map[string]bool{}
	for _, t := range twins {
		for _, r := range t.rows {
			have[r] = true
		}
	}
	var missing []string
	withTest := 0
	for _, r := range tr.rows {
		if len(r.Tests) == 0 {
			continue
		}
		withTest++
		if !have[r.Name] {
			missing = append(missing, r.Name)
		}
	}
	fmt.Fprintf(w, "%d twins; %d rows name a test, %d of them have no twin\n", len(twins), withTest, len(missing))
	if len(missing) > 0 {
		fmt.Fprintf(w, "missing: %s\n", strings.Join(missing, " "))
	}
	return len(missing)
}
