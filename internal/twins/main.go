package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	root          string
	check, strict bool
	row, area     string
	changed       string
	sample        int
	seed          uint64
	jobs          int
	tries, count  int
	verbose       bool
}

// errSurvivors ends a run in which a twin was not caught. The printed lines name it.
var errSurvivors = errors.New("not all twins were caught")

func run(ctx context.Context, args []string, w io.Writer) error {
	var o options
	flags := flag.NewFlagSet("twins", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the module's `directory`")
	flags.BoolVar(&o.check, "check", false, "run no test: formats, names, whether edits fit and build, rows without a twin")
	flags.BoolVar(&o.strict, "strict", false, "a row that names a test and has no twin is an error")
	flags.StringVar(&o.row, "row", "", "only twins of these `rows`, with commas")
	flags.StringVar(&o.area, "area", "", "only twins of these `files` of internal/twins/rows, with commas, without .txt")
	flags.StringVar(&o.changed, "changed", "", "only twins whose edited files, text or test files differ from `revision`")
	flags.IntVar(&o.sample, "sample", 0, "at most this `number` of the twins selected, by seed; 0 means all")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the sample")
	flags.IntVar(&o.jobs, "j", runtime.NumCPU(), "how many twins to run at a time")
	flags.IntVar(&o.tries, "tries", 1, "how often the tests of a twin that survives are run")
	flags.IntVar(&o.count, "count", 1, "how often a test is run in each try: it must fail each time")
	flags.BoolVar(&o.verbose, "v", false, "tell also why a twin counts as caught")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.jobs < 1 || o.tries < 1 || o.count < 1 || o.sample < 0 {
		return fmt.Errorf("twins takes flags only, -j, -tries and -count of at least 1 and -sample of at least 0")
	}
	tr, err := readTree(o.root)
	if err != nil {
		return err
	}
	all, err := readRows(filepath.Join(tr.root, filepath.FromSlash(rowsDir)))
	if err != nil {
		return err
	}
	if o.check {
		err := tr.check(ctx, all)
		if n := tr.printMissing(w, all); n > 0 && o.strict {
			err = errors.Join(err, fmt.Errorf("%d rows have no twin", n))
		}
		return err
	}
	chosen, err := tr.choose(ctx, all, o)
	if err != nil {
		return err
	}
	return tr.tryAll(ctx, chosen, o, w)
}

// rowsDir is the directory of the twins, relative to the root.
const rowsDir = "internal/twins/rows"

// choose returns the twins that the flags select.
func (tr *tree) choose(ctx context.Context, all []*twin, o options) ([]*twin, error) {
	chosen := slices.Clone(all)
	keep := func(f func(*twin) bool) {
		chosen = slices.DeleteFunc(chosen, func(t *twin) bool { return !f(t) })
	}
	if o.area != "" {
		areas := strings.Split(o.area, ",")
		keep(func(t *twin) bool { return slices.Contains(areas, t.area) })
	}
	if o.row != "" {
		rows := strings.Split(o.row, ",")
		keep(func(t *twin) bool {
			return slices.ContainsFunc(t.rows, func(r string) bool { return slices.Contains(rows, r) })
		})
	}
	if len(chosen) == 0 && (o.area != "" || o.row != "") {
		return nil, errors.New("no twin is of these rows and areas")
	}
	if o.changed != "" {
		changed, err := tr.changedSince(ctx, o.changed)
		if err != nil {
			return nil, err
		}
		keep(changed)
	}
	if o.sample > 0 && o.sample < len(chosen) {
		rnd := rand.New(rand.NewPCG(o.seed, 0))
		rnd.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:o.sample]
	}
	return chosen, nil
}

// changedSince returns a function that reports whether a twin has changed since rev: the files that
// it edits, the files of its tests or its own text.
func (tr *tree) changedSince(ctx context.Context, rev string) (func(*twin) bool, error) {
	diff, err := tr.git(ctx, "diff", "--name-only", "--relative", rev)
	if err != nil {
		return nil, err
	}
	untracked, err := tr.git(ctx, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, f := range slices.Concat(strings.Fields(diff), strings.Fields(untracked)) {
		files[f] = true
	}
	old := map[string]bool{}
	for f := range files {
		if dir, name := filepath.ToSlash(filepath.Dir(f)), filepath.Base(f); dir == rowsDir {
			src, _ := tr.git(ctx, "show", rev+":./"+f)               // a file that did not exist had no twins
			twins, _ := parse(strings.TrimSuffix(name, ".txt"), src) // unparsable twins count as changed
			for _, t := range twins {
				old[t.text()] = true
			}
		}
	}
	return func(t *twin) bool {
		if files[rowsDir+"/"+t.area+".txt"] && !old[t.text()] {
			return true
		}
		return slices.ContainsFunc(t.edits, func(e edit) bool { return files[e.file] }) ||
			slices.ContainsFunc(t.tests, func(n testName) bool {
				dir, _ := tr.dirOf(n.pkg)
				return files[tr.tests[dir][n.top()]]
			})
	}, nil
}

func (tr *tree) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = tr.root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// tryAll runs the twins and prints the result of each.
func (tr *tree) tryAll(ctx context.Context, twins []*twin, o options, w io.Writer) error {
	tmp, err := os.MkdirTemp("", "twins")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	start := time.Now()
	count := map[verdict]int{}
	rows := map[string]bool{}
	late := 0
	r := &runner{tr: tr, tmp: tmp, tries: o.tries, count: o.count, bare: map[testName]*bareResult{}}
	r.all(ctx, twins, o.jobs, func(t *twin, res outcome) {
		count[res.verdict]++
		for _, name := range t.rows {
			rows[name] = true
		}
		if res.verdict == caught && res.tries > 1 {
			late++
			fmt.Fprintf(w, "WEAK: caught by try %d only: ", res.tries)
		}
		fmt.Fprintf(w, "%s in %.1f s  %s  row %s: %s\n", res.verdict, res.took.Seconds(), t, strings.Join(t.rows, ", "), t.breaks)
		if res.detail != "" && (res.verdict != caught || o.verbose) {
			fmt.Fprintln(w, "    "+strings.ReplaceAll(res.detail, "\n", "\n    "))
		}
	})
	fmt.Fprintf(w, "rows %d, twins %d, caught %d, survivors %d, broken %d, in %.0f s\n", len(rows), len(twins), count[caught],
		count[survived], len(twins)-count[caught]-count[survived], time.Since(start).Seconds())
	if late > 0 {
		fmt.Fprintf(w, "%d were noticed by chance: their tests are to be mended\n", late)
	}
	if count[caught] != len(twins) {
		return errSurvivors
	}
	return nil
}
