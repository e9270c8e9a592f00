package explore

import (
	"errors"
	"math"
	"sort"
	"sync"
	"testing/synctest"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// do runs one operation, and o.Mid if it is set.
func (w *world) do(o *Op) error {
	if o.Mid == nil {
		return w.one(o)
	}
	if w.faulty {
		return errors.Join(w.one(o), w.one(o.Mid))
	}
	w.overlap.Store(int64(len(w.known())) + 1)
	err := w.overlapped(o)
	if err == nil {
		err = w.sortOut()
	}
	w.overlap.Store(0)
	return err
}

// overlapped runs an operation, and begins the second one at call o.At of the first.
func (w *world) overlapped(o *Op) error {
	var mu sync.Mutex // guards the variables below
	var mid chan error
	waited := make(chan struct{})
	calls := 0
	stop := w.fs.Observe(vfs.Observer{Before: func(vfs.Event) {
		mu.Lock()
		calls++
		now := calls >= o.At && mid == nil
		if now {
			mid = make(chan error, 1)
		}
		mu.Unlock()
		if now {
			go func() { mid <- w.one(o.Mid) }()
			synctest.Wait() // until it is done, or waits for the first one
			close(waited)
		}
	}})
	err := w.one(o)
	stop()
	mu.Lock()
	started := mid
	calls = math.MinInt // an observer call that still runs after stop begins no operation
	mu.Unlock()         // before the wait: the second operation may wait for such a call
	if started != nil {
		err = errors.Join(err, <-started)
		<-waited
	}
	return err
}

// sortOut checks the logs after two overlapping operations and makes their content the beginning
// of their history. The order in which the operations noted their facts means nothing.
func (w *world) sortOut() error {
	facts := w.known()
	for _, m := range w.logs {
		l := m.log.Load()
		if l == nil || l.Err() != nil {
			continue
		}
		e := expect(facts, int(w.overlap.Load())-1, m.index, 0, true)
		f, err := readLog(l)
		if err := errors.Join(err, e.check(f)); err != nil {
			return err
		}
		w.begin(m, l, f)
		if e.doubt > f.start { // the next open may still carry out a deletion that failed
			w.add(fact{kind: deleting, log: m.index, offset: e.doubt})
		}
	}
	return nil
}

// begin makes the content of an open log the beginning of its history.
func (w *world) begin(m *member, l *log.Log, f *found) {
	first := fact{kind: reopened, log: m.index, offset: f.start, end: f.end, at: w.nextID(), recs: f.recs, offsets: f.offsets, bases: f.bases, lasts: f.lasts, id: -1}
	if e, ok := l.Epochs().Latest(); ok {
		before := sort.Search(int(f.end-f.start), func(i int) bool { return l.Epochs().At(f.start+int64(i)) == e })
		first.id, first.n = int64(e), f.start+int64(before)
	}
	w.add(first)
	w.add(fact{kind: synced, log: m.index, offset: l.DurableOffset()})
	m.owner.begin(f)
}
