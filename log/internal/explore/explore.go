package explore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
)

// Options determine how thoroughly a script is explored. The zero value only runs it.
type Options struct {
	Every int    // crash before every Every-th call that changes the file system; 0 means before none
	Kinds int    // number of kinds of crashes at each of them
	Kind  string // or only this kind
	Tries int    // of a kind that is random; 0 means one
	Again int    // in one of Again states, crash again at every third recovery call; 0 means never
	Fail  int    // in one of Fail states, make calls of the recovery fail; 0 means never
	Step  int    // every Step-th of these calls; 0 means all
	Seed  uint64 // of the crashes
	Most  int    // approximate maximum of states after one crash, at calls that Pick selects; 0 means all
	Pick  uint64 // see Most
	Last  bool   // crash in the last operation only, and at the end

	// Share makes the logs of a directory share syncs from now on, through its journal, which they
	// would do only after a while; nil means that they do not. It is for worlds with share=1.
	Share func(*log.Directory) error
}

// A Report counts the explored states.
type Report struct {
	Calls  int // calls that change the file system
	States int // after one crash
	Second int // after another crash during the recovery
	Failed int // after a recovery with a failed call
}

func (r Report) String() string {
	return fmt.Sprintf("%d calls, %d states after a crash, %d after another one during recovery, %d after recovery had failed", r.Calls, r.States, r.Second, r.Failed)
}

// Add adds the counts of o.
func (r *Report) Add(o Report) {
	r.Calls, r.States, r.Second, r.Failed = r.Calls+o.Calls, r.States+o.States, r.Second+o.Second, r.Failed+o.Failed
}

// A Violation is a state that must not occur.
type Violation struct {
	Err  error
	Kind string // of the crash after which it was found; "" means that the script itself shows it
	Op   int    // index of the operation in progress
}

func (v *Violation) Error() string {
	if v.Kind == "" {
		return v.Err.Error()
	}
	return fmt.Sprintf("crash %q in operation %d: %v", v.Kind, v.Op+1, v.Err)
}

// Class returns the common part of violations of one kind: the beginning of the innermost error,
// without numbers.
func (v *Violation) Class() string {
	err := v.Err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	text := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, err.Error())
	text = strings.ReplaceAll(text, "#", "")
	return text[:min(len(text), 25)]
}

// Run runs a script and explores it. It must be called in a testing/synctest bubble.
func Run(s *Script, o Options) (Report, *Violation) {
	w := newWorld(s)
	w.share = o.Share
	w.cuts.every = o.Every
	if o.Last {
		w.cuts.from = len(s.Ops) - 1
	}
	err := w.run(s)
	if endErr := w.end(); err == nil && w.injected(endErr) != nil {
		err = fmt.Errorf("close: %w", endErr)
	}
	rep := Report{Calls: w.cuts.calls}
	if err != nil {
		return rep, &Violation{Err: err, Op: int(w.op.Load())}
	}
	stride := 1
	if o.Most > 0 {
		stride = (len(w.cuts.list)*len(kinds(0, o)) + o.Most - 1) / o.Most
	}
	for i := range w.cuts.list {
		if !sample.Chosen(o.Pick, i, stride) {
			continue
		}
		c := &w.cuts.list[i]
		for _, kind := range kinds(i, o) {
			for try := range max(o.Tries, 1) {
				if v := w.state(&rep, c, kind, (o.Seed+uint64(try))<<20+uint64(c.event.N), o); v != nil {
					return rep, v
				}
			}
		}
	}
	return rep, nil
}

// kinds returns how to crash at the i-th cut: all kinds take turns.
func kinds(i int, o Options) (all []Crash) {
	if o.Kind != "" {
		return []Crash{crashNamed(o.Kind)}
	}
	for k := range o.Kinds {
		all = append(all, Crashes[(i*o.Kinds+k+int(o.Seed%1000))%len(Crashes)])
	}
	return all
}

// chosen picks one of every so many states. It does not count them: the kinds of crashes take
// turns, so that it would always be the same kind's.
func chosen(state, every int) bool {
	return every > 0 && mix(int64(state))>>33%uint64(every) == 0
}

// state looks at one state.
func (w *world) state(rep *Report, c *cut, kind Crash, seed uint64, o Options) *Violation {
	fsys := kind.of(c.fs, seed)
	rep.States++
	p := &opening{world: w, cut: c, fs: fsys.Kill(), want: c.expectAll(kind.Killed), doubt: c.doubt && kind.Killed}
	err := w.checkBackups(c, fsys.Kill())
	if err == nil && chosen(rep.States, o.Again) {
		var n int
		n, err = p.during(kind, seed, 3)
		rep.Second += n
		p.fs = fsys.Kill()
	}
	if err == nil && chosen(rep.States, o.Fail) {
		step := max(o.Step, 1)
		var n int
		n, err = p.failing(kind, seed, int(seed+uint64(rep.States))%step, step)
		rep.Failed += n
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return &Violation{Err: fmt.Errorf("before %v: %w", c.event, err), Kind: kind.Name, Op: c.op}
	}
	return nil
}
