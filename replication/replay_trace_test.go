package replication

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata/vfs"
)

// A trace is what happened in a run, by virtual time. Runs of one seed have the same.
type trace struct {
	begin time.Time
	turns turns // of the operations that it tells of

	mu    sync.Mutex
	lines []traceLine
}

type traceLine struct {
	at   time.Duration
	text string
}

func newTrace() *trace { return &trace{begin: time.Now()} }

func (tr *trace) add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, traceLine{time.Since(tr.begin), drawn.ReplaceAllString(fmt.Sprintf(format, args...), ".-")})
}

// sorted returns the lines. What happens at one instant has no order: nothing but one cause begins
// at it, and what that one leads to at once may be told by several goroutines.
func (tr *trace) sorted() []traceLine {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	lines := slices.Clone(tr.lines)
	slices.SortFunc(lines, func(a, b traceLine) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) })
	return lines
}

// String returns the trace, a line each.
func (tr *trace) String() string {
	var s strings.Builder
	for _, l := range tr.sorted() {
		fmt.Fprintf(&s, "%v %s\n", l.at, l.text)
	}
	return s.String()
}

// firstDifference returns the first lines that two traces do not share, with those before; empty:
// there is none.
func firstDifference(a, b []traceLine) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return ""
	}
	var s strings.Builder
	for _, l := range a[max(0, i-8):i] {
		fmt.Fprintf(&s, "  %v %s\n", l.at, l.text)
	}
	for k, lines := range [][]traceLine{a, b} {
		for _, l := range lines[i:min(i+4, len(lines))] {
			fmt.Fprintf(&s, "%c %v %s\n", "-+"[k], l.at, l.text)
		}
	}
	return s.String()
}

// drawn is in names that nobody chooses.
var drawn = regexp.MustCompile(`\.[0-9a-f]{32}-`)

// delays gives every operation of every disk a duration of its own: which, say the seed, the
// operation, and how many like it there were. So no two operations end at the same instant, and the
// order in which goroutines begin theirs does not matter.
type delays struct {
	seed uint64
	tr   *trace

	mu      sync.Mutex
	counts  map[string]int
	factor  map[int32]time.Duration // of a broker's disk
	syncing map[string]int          // directories, with the syncs under way in them
}

func newDelays(seed uint64, tr *trace) *delays {
	return &delays{seed: seed, tr: tr, counts: map[string]int{}, factor: map[int32]time.Duration{}, syncing: map[string]int{}}
}

// watch has the disk of a broker take its time.
func (d *delays) watch(broker int32, disk *vfs.MemFS) (stop func()) {
	return disk.Observe(vfs.Observer{
		Before: func(e vfs.Event) { d.pass(broker, e, "") },
		After:  func(e vfs.Event, err error) { d.pass(broker, e, fmt.Sprint(" ", err)) },
	})
}

// pass takes as long as an operation does, before or after its effect.
func (d *delays) pass(broker int32, e vfs.Event, after string) {
	if e.Op&vfs.OpChange == 0 {
		return
	}
	e.N = 0 // reads count
	key := drawn.ReplaceAllString(fmt.Sprint(broker, " ", e, after), ".-")
	d.mu.Lock()
	n := d.counts[key]
	d.counts[key]++
	factor := max(d.factor[broker], 1)
	dir := fmt.Sprint(broker, " ", filepath.Base(filepath.Dir(e.Name)))
	if e.Op == vfs.OpSync {
		d.syncing[dir]++
	}
	d.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprint(h, key, " ", n)
	time.Sleep(factor * someTime(rand.New(rand.NewPCG(d.seed, h.Sum64())), e.Op))
	d.tr.turns.next(time.Since(d.tr.begin))
	d.tr.add("%s", key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Op == vfs.OpSync {
		d.syncing[dir]--
	}
}

// someTime returns how long half of an operation takes, to the nanosecond.
func someTime(r *rand.Rand, op vfs.Op) time.Duration {
	most := 60 * time.Microsecond
	if op&(vfs.OpSync|vfs.OpSyncDir) != 0 {
		most = time.Millisecond
	}
	switch r.IntN(300) {
	case 0:
		most *= 300
	case 1, 2, 3:
		most *= 20
	}
	return 1 + time.Duration(r.Int64N(int64(most)))
}
