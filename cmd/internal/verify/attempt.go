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

// A writer may be at work in a partition that is being checked. What is read then is of several
// moments: a state, a listing and files of before and after a roll, a compaction, a truncation, a
// batch half written. So damage is believed at once only in a directory that was the same before
// and after the check; else when agreeing checks in a row, with pauses between them, have found the
// same.
const (
	agreeing = 3
	pause    = 5 * time.Millisecond
)

// partition checks a partition.
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
		if rest { // else a writer is at work, and there is no next open yet
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

// keep drops the damage that not all earlier attempts have found.
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

// take reports what an attempt has found.
func (v *verifier) take(a *attempt) {
	for _, f := range a.findings {
		v.o.Found(f)
	}
	for path, n := range a.perFile {
		v.perFile[path] += n
	}
	v.n = a.n
}

// fingerprint is a number that changes with the files of a directory: their names, sizes and times,
// and all of the log's state. 0: it cannot be read, or something goes just now.
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
