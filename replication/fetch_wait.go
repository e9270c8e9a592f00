package replication

import (
	"github.com/stratalog/strata/partition"
)

// fetchWait is the wait of one fetch for any of its partitions.
type fetchWait struct {
	woken   chan struct{} // holds a token when it is time to read again
	waiter  *partition.Waiter
	waiting []*replica // those without files
}

func (w *fetchWait) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wait registers with all partitions for the bytes that the last read lacked.
func (f *fetch) wait() *fetchWait {
	w := &fetchWait{woken: make(chan struct{}, 1)}
	w.waiter = partition.NewWaiter(f.minBytes-f.bytes, f.req.Isolation, w.wake)
	for i, at := range f.places {
		switch {
		case at.p != nil && at.follows:
			at.p.WatchFollower(max(at.bound, f.req.Partitions[i].Offset), w.waiter)
		case at.p != nil:
			at.p.Watch(max(at.bound, f.req.Partitions[i].Offset), w.waiter)
		case at.r.watch(w):
			w.waiting = append(w.waiting, at.r)
		default:
			w.wake() // it has got its first record, or was closed
		}
	}
	return w
}

func (w *fetchWait) cancel() {
	w.waiter.Cancel()
	for _, r := range w.waiting {
		r.unwatch(w)
	}
}
