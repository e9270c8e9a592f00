package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// verdict is the result of a twin.
type verdict string

const (
	caught     verdict = "caught"
	survived   verdict = "SURVIVED"
	noApply    verdict = "does not apply"
	noBuild    verdict = "does not build"
	timedOut   verdict = "times out"
	failsBare  verdict = "fails without it"
	notStarted verdict = "does not run"
)

// testTimeout bounds a run of a test binary for a twin without a hangs line.
const testTimeout = 2 * time.Minute

type outcome struct {
	verdict
	took   time.Duration
	detail string // output that explains a verdict other than caught
	tries  int    // number of tries of the twin; it survived all except the last
}

// runner runs twins. Safe for concurrent use.
type runner struct {
	tr    *tree
	tmp   string // for edited files and overlays
	tries int    // limit of tries of a twin that survives
	count int    // number of runs of a test in each try

	mu   sync.Mutex // guards the fields below
	bare map[testName]*bareResult
}

// bareResult is the result of a test without an edit. The test runs once.
type bareResult struct {
	once   sync.Once
	passed bool
	output string
}

// try runs the twin's tests until they catch it, at most r.tries times.
func (r *runner) try(ctx context.Context, t *twin) outcome {
	for n := 1; ; n++ {
		o := r.tryOnce(ctx, t)
		if o.tries = n; o.verdict != survived || n >= r.tries {
			return o
		}
	}
}

// tryOnce runs the twin's tests with and without its edit.
func (r *runner) tryOnce(ctx context.Context, t *twin) outcome {
	if lean, err := r.tr.leanTests(t); err == nil {
		if o := r.tryWith(ctx, t, lean); o.verdict != noBuild {
			return o
		}
	}
	return r.tryWith(ctx, t, nil) // the edit does not build, or a test needs an omitted test
}

// tryWith is tryOnce with the files of besides in the overlay, in addition to the edited ones.
func (r *runner) tryWith(ctx context.Context, t *twin, besides map[string][]byte) outcome {
	start := time.Now()
	done := func(v verdict, detail string) outcome {
		return outcome{verdict: v, took: time.Since(start), detail: detail}
	}
	overlay, err := r.overlay(t, besides)
	if err != nil {
		return done(noApply, err.Error())
	}
	hung := false
	for _, n := range t.tests {
		res := r.goTest(ctx, n, "-overlay="+overlay, "-count="+strconv.Itoa(r.count), "-timeout="+r.timeoutOf(t).String())
		switch {
		case res.noBuild:
			return done(noBuild, res.output)
		case !res.ran:
			return done(notStarted, res.output)
		case !res.failed:
			return done(survived, fmt.Sprintf("%v passes", n))
		case res.passes > 0 && res.fails > 0:
			return done(survived, fmt.Sprintf("%v passes %d of %d times", n, res.passes, res.passes+res.fails))
		case res.timedOut && t.hangs == 0:
			return done(timedOut, res.output)
		}
		hung = hung || res.timedOut
	}
	took := time.Since(start)
	for _, n := range t.tests { // last: a survivor does not need these runs
		if b := r.withoutEdit(ctx, n); !b.passed {
			return done(failsBare, b.output)
		}
	}
	if hung {
		return outcome{verdict: caught, took: took, detail: "by a timeout, as it says"}
	}
	return outcome{verdict: caught, took: took}
}

// timeoutOf returns the timeout of a test binary for t. If one run of the test hangs, all end.
func (r *runner) timeoutOf(t *twin) time.Duration {
	if t.hangs > 0 {
		return t.hangs
	}
	return time.Duration(r.count) * testTimeout
}

// overlay writes the edited files of t and the files of besides below r.tmp. It returns the path of
// the file for go's -overlay flag.
func (r *runner) overlay(t *twin, besides map[string][]byte) (string, error) {
	files, err := r.tr.edited(t)
	if err != nil {
		return "", err
	}
	maps.Copy(files, besides)
	dir, err := os.MkdirTemp(r.tmp, "twin")
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, src := range files {
		path := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(path, src, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(r.tr.root, filepath.FromSlash(file))] = path
	}
	js, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, js, 0o600)
}

// withoutEdit runs a test without an edit. It does not set -count, so that the go command caches
// the result between runs.
func (r *runner) withoutEdit(ctx context.Context, n testName) *bareResult {
	r.mu.Lock()
	b := r.bare[n]
	if b == nil {
		b = &bareResult{}
		r.bare[n] = b
	}
	r.mu.Unlock()
	b.once.Do(func() {
		res := r.goTest(ctx, n, "-timeout="+testTimeout.String())
		b.passed, b.output = res.ran && !res.failed, res.output
	})
	return b
}

// result is the result of one go test command.
type result struct {
	ran      bool // the test was found and begun
	failed   bool
	timedOut bool
	noBuild  bool
	passes   int // number of passed runs of the test
	fails    int // number of failed runs
	output   string
}

// goTest runs one test in its module. vet is off: an edit need not pass it.
func (r *runner) goTest(ctx context.Context, n testName, flags ...string) result {
	dir, err := r.tr.dirOf(n.pkg)
	if err != nil {
		return result{output: err.Error()}
	}
	pkg := filepath.Join(r.tr.root, filepath.FromSlash(dir))
	args := append([]string{"test", "-json", "-vet=off", "-run=" + pattern(n.name)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir, cmd.Env = pkg, append(os.Environ(), "STRATA_BUILDS=1") // tests that build programs must not be skipped
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return result{output: errors.Join(err, ctx.Err()).Error()}
	}
	res := readEvents(out, n.name)
	res.output = lastLines(res.output+stderr.String(), 25)
	return res
}

// pattern returns the -run pattern that matches exactly one test or subtest.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// readEvents reads the output of go test -json for the test called name. The test also counts as
// failed if its binary fails although the test passes, as when TestMain finds a leaked goroutine.
func readEvents(out []byte, name string) result {
	var res result
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var ev struct{ Action, Test, Output, FailedBuild string }
		if json.Unmarshal(lines.Bytes(), &ev) != nil {
			fmt.Fprintln(&text, lines.Text())
			continue
		}
		switch ev.Action {
		case "output", "build-output":
			text.WriteString(ev.Output)
			res.timedOut = res.timedOut || strings.HasPrefix(ev.Output, "panic: test timed out after ")
		case "run":
			res.ran = res.ran || ev.Test == name
		case "pass":
			if ev.Test == name {
				res.passes++
			}
		case "build-fail":
			res.noBuild = true
		case "fail":
			res.failed = res.failed || ev.Test == "" || ev.Test == name
			res.noBuild = res.noBuild || ev.FailedBuild != ""
			if ev.Test == name {
				res.fails++
			}
		}
	}
	res.output = text.String()
	return res
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// all tries the twins, jobs at a time. It calls report for each result, one call at a time.
func (r *runner) all(ctx context.Context, twins []*twin, jobs int, report func(*twin, outcome)) {
	var mu sync.Mutex // serializes report
	var wg sync.WaitGroup
	next := make(chan *twin)
	for range min(jobs, len(twins)) {
		wg.Go(func() {
			for t := range next {
				o := r.try(ctx, t)
				mu.Lock()
				report(t, o)
				mu.Unlock()
			}
		})
	}
	for _, t := range slices.Clone(twins) {
		next <- t
	}
	close(next)
	wg.Wait()
}
