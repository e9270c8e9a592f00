package replication

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/struggle"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A replica is a partition's place on a broker. A partition that was never written has no files and
// nothing but this in memory: the first append creates its directory. Until then it reads as empty.
type replica struct {
	node *node
	tp   record.TopicPartition
	id   topic.ID

	// part is set once, when the partition is open and no caller waits for that any more. It stays
	// when it is closed.
	part atomic.Pointer[partition.Partition]
	// readable is set before part: appends of the first waiting callers are acknowledged while
	// others still wait.
	readable atomic.Pointer[partition.Partition]

	compacted atomic.Bool // cleanup.policy contains compact
	inOrder   atomic.Bool // part was closed without an error, when the broker ended

	// results of the openings of the partition's files on the disk
	openings struggle.Watch

	// after is closed when the replica that had the directory's name before has released it; nil
	// if the name was free. Set when the replica is made.
	after <-chan struct{}

	mu sync.Mutex // guards the fields below; never held while waiting
	// opening is closed when the opening in progress has ended; nil if there is none.
	opening chan struct{}
	waiting []func(*partition.Partition, error) // to be called in order when it has
	// watches are fetches that wait for the partition's first record.
	watches map[*fetchWait]struct{}
	// err is why it is offline or removed, until the cluster is opened again.
	err error
	// lost is why the directory, if it exists, does not have the replica's records: see cannotServe.
	// Set while the broker loads; nil: it has, or they are being copied again.
	lost   error
	damage damage               // found by reads
	fresh  *partition.Partition // open, and visible only to settle
	shared *several             // nil: it was never one of several
}

// place names the replica on its broker.
func (r *replica) place() place { return place{Topic: r.id, Partition: r.tp.Partition} }

// with calls fn with the open partition: at once if it is open, else after it has been opened.
// Calls of fn come in the order of the calls of with. fn must not block. It gets an error if the
// partition cannot be opened.
func (r *replica) with(fn func(*partition.Partition, error)) {
	if p := r.part.Load(); p != nil {
		fn(p, nil)
		return
	}
	r.mu.Lock()
	if p := r.part.Load(); p != nil {
		r.mu.Unlock()
		fn(p, nil)
		return
	}
	if err := r.err; err != nil {
		r.mu.Unlock()
		fn(nil, err)
		return
	}
	r.waiting = append(r.waiting, fn)
	start := r.opening == nil
	if start {
		r.opening = make(chan struct{})
	}
	r.mu.Unlock()
	if start && !r.node.run(r.open) {
		for r.refuse(r.node.ended()) {
		}
	}
}

// open opens the partition and wakes the callers that wait for it.
func (r *replica) open() {
	n := r.node
	r.awaitDirectory()
	for again := true; again; {
		n.opens <- struct{}{}
		p, err := n.openPartition(r)
		<-n.opens
		if err == nil {
			r.opened(p)
			return
		}
		if ended := n.ended(); errors.Is(ended, ErrNotLeader) { // the disk was cut off; nothing was appended
			err = fmt.Errorf("%w: %w", ended, err)
		} else {
			r.openFailed(err)
			n.watchLag()
		}
		again = r.refuse(err)
	}
}

// openFailed records that the disk failed to have the files open. Damaged bytes are no failure of
// the disk, which has returned them.
func (r *replica) openFailed(err error) {
	if !errors.Is(err, partition.ErrCorrupt) {
		r.openings.Failed(err)
	}
}

// awaitDirectory waits until the replica that had the directory's name before has closed its files
// and put the directory aside. It waits for the disk, as long as the broker is not cut off.
func (r *replica) awaitDirectory() {
	if r.after != nil {
		<-r.after
	}
}

// refuse returns the error to the callers that waited for a failed opening, and reports whether
// others have arrived meanwhile. They request another attempt, since the cause of the failure may
// have ended (a full disk gets space). If there are none, the opening ends.
func (r *replica) refuse(err error) (again bool) {
	for {
		r.mu.Lock()
		fns := r.waiting
		r.waiting = nil
		if len(fns) == 0 {
			close(r.opening)
			r.opening = nil
			r.mu.Unlock()
			return false
		}
		r.mu.Unlock()
		for _, fn := range fns {
			fn(nil, err)
		}
		r.mu.Lock()
		again = len(r.waiting) > 0 && r.err == nil
		if r.err != nil { // offline or removed: no attempt helps
			err = r.err
		}
		r.mu.Unlock()
		if again {
			return true
		}
	}
}

// opened ends a successful opening.
func (r *replica) opened(p *partition.Partition) {
	r.openings.Worked()
	r.mu.Lock()
	r.readable.Store(p)
	watches, shared := r.takeWatchesLocked(), r.shared
	r.mu.Unlock()
	// After readable is set: the node resigns, is cut or stands down before it looks for open
	// partitions.
	if errors.Is(r.node.ended(), ErrNotLeader) {
		p.Resign()
		p.BecomeFollower()
	} else if r.node.isolated.Load() {
		p.BecomeFollower()
	}
	wake(watches) // they watch the partition itself from now on
	if shared != nil {
		shared.wake() // followers that got an answer without records, and are to report their ends
	}
	for {
		r.mu.Lock()
		fns := r.waiting
		r.waiting = nil
		if len(fns) == 0 {
			break // later callers find part set, after all waiting ones
		}
		r.mu.Unlock()
		for _, fn := range fns {
			fn(p, nil)
		}
	}
	r.part.Store(p)
	close(r.opening)
	r.opening = nil
	r.mu.Unlock()
}

// watch makes w wait for the partition to be opened or to be no more. False: that has happened, w
// was not registered.
func (r *replica) watch(w *fetchWait) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readable.Load() != nil || r.err != nil {
		return false
	}
	if r.watches == nil {
		r.watches = map[*fetchWait]struct{}{}
	}
	r.watches[w] = struct{}{}
	return true
}

func (r *replica) unwatch(w *fetchWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.watches, w)
}

func (r *replica) takeWatchesLocked() map[*fetchWait]struct{} {
	watches := r.watches
	r.watches = nil
	return watches
}

// wakeWatches makes fetches that wait for the first record look up the leader again.
func (r *replica) wakeWatches() {
	r.mu.Lock()
	watches := r.takeWatchesLocked()
	r.mu.Unlock()
	wake(watches)
}

func wake(watches map[*fetchWait]struct{}) {
	for w := range watches {
		w.wake()
	}
}

// state returns the open partition, or nil and why there is none; neither means that it is empty
// and has no files.
func (r *replica) state() (*partition.Partition, error) {
	if p := r.readable.Load(); p != nil {
		return p, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readable.Load(), r.err
}

// awaitOpening waits until no opening is in progress and returns the partition if it is open.
func (r *replica) awaitOpening() *partition.Partition {
	r.mu.Lock()
	opening := r.opening
	r.mu.Unlock()
	if opening != nil {
		<-opening
	}
	return r.part.Load()
}

// dismiss makes every further use fail with err, wakes fetches that wait for the first record, and
// returns the partition if it is open. It does not block.
func (r *replica) dismiss(err error) *partition.Partition {
	r.mu.Lock()
	r.err = err
	watches := r.takeWatchesLocked()
	r.mu.Unlock()
	wake(watches)
	return r.readable.Load()
}

// retire is dismiss, but waits for an opening in progress and returns the partition, if it is
// open, for the caller to close.
func (r *replica) retire(err error) *partition.Partition {
	r.dismiss(err)
	r.mu.Lock()
	opening := r.opening
	r.mu.Unlock()
	if opening != nil {
		<-opening
	}
	return r.part.Load()
}

// reason returns why the replica cannot be used, nil if it can.
func (r *replica) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// loss returns why the directory does not have the replica's records, nil if it has.
func (r *replica) loss() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// setLoss sets the result of loss.
func (r *replica) setLoss(err error) {
	r.mu.Lock()
	r.lost = err
	r.mu.Unlock()
}

// fail puts the partition offline.
func (r *replica) fail(err error) {
	r.mu.Lock()
	r.err = err
	r.mu.Unlock()
}
