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

// A trace has the events of a run, by virtual time. Runs of one seed have the same trace.
type trace struct {
	begin time.Time
	turns turns // of the operations in the trace

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

// sorted returns the lines by time and text. Lines of one instant have no order. A single cause
// begins at an instant, and several goroutines may add its immediate effects.
func (tr *trace) sorted() []traceLine {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	lines := slices.Clone(tr.lines)
	slices.SortFunc(lines, func(a, b traceLine) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) })
	return lines
}

// String returns the trace, with one line for each event.
func (tr *trace) String() string {
	var s strings.Builder
	for _, l := range tr.sorted() {
		fmt.Fprintf(&s, "%v %s\n", l.at, l.text)
	}
	return s.String()
}

// firstDifference returns the first lines that differ between two traces, after the lines before
// them. It returns "" if the traces are equal.
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

// drawn matches random ids in names.
var drawn = regexp.MustCompile(`\.[0-9a-f]{32}-`)

// delays gives every operation of every disk a duration of its own. The duration depends on the
// seed, the operation, and the number of equal operations before. So no two operations end at the
// same instant, and the order in which goroutines begin theirs does not matter.
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

// watch delays the operations of a broker's disk.
func (d *delays) watch(broker int32, disk *vfs.MemFS) (stop func()) {
	return disk.Observe(vfs.Observer{
		Before: func(e vfs.Event) { d.pass(broker, e, "") },
		After:  func(e vfs.Event, err error) { d.pass(broker, e, fmt.Sprint(" ", err)) },
	})
}

// pass sleeps for the duration of an operation, before or after its effect.
func (d *delays) pass(broker int32, e vfs.Event, after string) {
	if e.Op&vfs.OpChange == 0 {
		return
	}
	e.N = 0 // N counts reads as well
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

// someTime returns the duration of half an operation, to the nanosecond.
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
