package verify

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/stratalog/strata/vfs"
)

// A broker may be writing to a partition during its check. Then the check may combine files from
// before and after a roll, a compaction or a truncation, and read an incomplete batch. If the
// directory was the same before and after a check, its damage is reported at once. Otherwise it is
// reported if agreeing checks in a row, a pause apart, have found the same damage.
const (
	agreeing = 3
	pause    = 5 * time.Millisecond
)

// partition checks a partition and reports its findings.
func (v *verifier) partition(dir string, fx facts) (found, error) {
	var before []attempt
	for {
		a := attempt{verifier: &verifier{ctx: v.ctx, fs: v.fs, o: v.o, n: v.n, perFile: map[string]int{}}}
		a.o.Found = func(f Finding) { a.findings = append(a.findings, f) }
		began := fingerprint(v.fs, dir)
		if v.o.Plan != nil {
			a.plan = v.o.Plan(dir)
		}
		out, err := a.check(dir, fx)
		if err != nil {
			return out, err
		}
		rest := began != 0 && fingerprint(v.fs, dir) == began
		if f := a.plan.Refused; f != nil && filepath.Dir(f.Path) == filepath.Clean(dir) && a.n.Damages == v.n.Damages {
			a.add(*f)
		}
		if rest { // otherwise the log is open, and the plan for the next open would be wrong
			for _, step := range a.plan.Steps {
				a.note(dir, "the next open would: %s", step)
			}
		}
		if rest || a.n.Damages == v.n.Damages || len(before) == agreeing-1 {
			if !rest {
				a.keep(before)
			}
			v.take(&a)
			return out, nil
		}
		before = append(before, a)
		time.Sleep(pause)
	}
}

// An attempt is one check of a partition.
type attempt struct {
	*verifier
	findings []Finding
}

// keep drops damage that an earlier attempt has not found.
func (a *attempt) keep(earlier []attempt) {
	a.findings = slices.DeleteFunc(a.findings, func(f Finding) bool {
		if f.Severity != Damage {
			return false
		}
		for _, e := range earlier {
			if !slices.Contains(e.findings, f) {
				a.n.Damages--
				a.perFile[f.Path]--
				return true
			}
		}
		return false
	})
}

// take reports the findings of an attempt.
func (v *verifier) take(a *attempt) {
	for _, f := range a.findings {
		v.o.Found(f)
	}
	for path, n := range a.perFile {
		v.perFile[path] += n
	}
	v.n = a.n
}

// fingerprint returns a hash of the files in a directory: their names, sizes, modification times,
// and the content of strata.state. It returns 0 if a file cannot be read, for instance because it
// was just removed.
func fingerprint(fsys vfs.FS, dir string) uint64 {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		_, _ = fmt.Fprintln(h, e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	state, err := vfs.ReadFile(fsys, filepath.Join(dir, "strata.state"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	_, _ = h.Write(state)
	return h.Sum64()
}
