package consumer

import (
	"container/heap"
	"hash/maphash"
	"time"

	"github.com/stratalog/strata/record"
)

// A job is one record on its way through the handler.
type job struct {
	t      *track
	seq    int64 // sequence number in t
	rec    record.Record
	due    time.Time // earliest time of a call; zero: immediately
	before int       // calls made before the record came through a retry topic
	stage  int       // number of retry topics it came through
	tries  int       // failed calls since then
	alone  bool      // a call with other records failed as a whole: from now on it is called alone
	free   bool      // from a retry topic: not ordered with others
}

// A lane is the queue of records that are processed one after the other: of a partition, a key, or
// a single record of a retry topic. It outlives seeks and rebalances, so that at most one call of a
// lane is active at any time, even when the same records are fetched again while an old call has
// not returned.
type lane struct {
	id    uint64
	state laneState
	jobs  []job
	due   time.Time // of jobs[0], in state delayed
	index int       // in lanes.delayed
}

type laneState uint8

const (
	laneIdle    laneState = iota // no jobs, or changing its state
	laneReady                    // in lanes.ready
	laneRunning                  // a worker has its first jobs
	laneDelayed                  // in lanes.delayed
	laneHeld                     // in lanes.held: its partition is paused
)

// lanes decides which jobs workers get next. Guarded by runner.mu, except for the channels.
//
// A lane is in exactly one state. The number of lanes is bounded by the number of jobs, which
// MaxInFlight bounds for each partition.
type lanes struct {
	seed    maphash.Seed
	byKey   bool
	all     map[uint64]*lane
	spare   []*lane // for reuse
	ready   []*lane
	delayed delayedLanes
	held    []*lane

	// signals workers that a lane is ready; capacity: workers, so that a full one has a token for
	// each
	wake  chan struct{}
	rearm chan struct{} // signals an earlier due time to the timekeeper; capacity 1
}

func newLanes(order RunOrder, workers int) lanes {
	return lanes{
		seed: maphash.MakeSeed(), byKey: order == ByKey, all: map[uint64]*lane{},
		wake: make(chan struct{}, workers), rearm: make(chan struct{}, 1),
	}
}

// id identifies the lane of a job. Two keys with the same hash share a lane, which costs time but
// keeps the order.
func (ls *lanes) id(j *job) uint64 {
	h := maphash.Comparable(ls.seed, j.t.p.tp)
	switch {
	case j.free:
		return h ^ maphash.Comparable(ls.seed, j.rec.Offset)
	case ls.byKey && j.rec.Key != nil:
		return h ^ maphash.Bytes(ls.seed, j.rec.Key)
	}
	return h
}

// push queues a job.
func (ls *lanes) push(j job) {
	id := ls.id(&j)
	l := ls.all[id]
	if l == nil {
		if n := len(ls.spare); n > 0 {
			l, ls.spare = ls.spare[n-1], ls.spare[:n-1]
		} else {
			l = &lane{}
		}
		l.id = id
		ls.all[id] = l
	}
	l.jobs = append(l.jobs, j)
	if l.state == laneIdle {
		ls.schedule(l)
	}
}

// putBack returns a worker's jobs to the front of their lane, which is idle.
func (ls *lanes) putBack(l *lane, jobs []job) {
	if len(jobs) > 0 {
		l.jobs = append(append(make([]job, 0, len(jobs)+len(l.jobs)), jobs...), l.jobs...)
	}
}

// schedule sets the state of an idle lane.
func (ls *lanes) schedule(l *lane) {
	for len(l.jobs) > 0 && l.jobs[0].t.drops() {
		l.pop(1)
	}
	if len(l.jobs) == 0 {
		delete(ls.all, l.id)
		ls.recycle(l)
		return
	}
	j := &l.jobs[0]
	switch {
	case j.t.paused:
		l.state = laneHeld
		ls.held = append(ls.held, l)
	case !j.due.IsZero() && time.Now().Before(j.due):
		l.state, l.due = laneDelayed, j.due
		heap.Push(&ls.delayed, l)
		if l.index == 0 {
			notify(ls.rearm)
		}
	default:
		l.state = laneReady
		ls.ready = append(ls.ready, l)
		notify(ls.wake)
	}
}

// recycle keeps an empty lane for reuse. Long queues are left to the garbage collector.
func (ls *lanes) recycle(l *lane) {
	const spareLanes, spareJobs = 1024, 64
	if len(ls.spare) < spareLanes && cap(l.jobs) <= spareJobs {
		*l = lane{jobs: l.jobs[:0]}
		ls.spare = append(ls.spare, l)
	}
}

// take appends the next jobs of one lane to dst, at most n, and marks the lane as running. It
// returns a nil lane if there are none.
func (ls *lanes) take(dst []job, n int) ([]job, *lane) {
	for len(ls.ready) > 0 {
		l := ls.ready[0]
		ls.ready[0] = nil
		ls.ready = ls.ready[1:]
		l.state = laneIdle
		if len(l.jobs) == 0 || l.jobs[0].t.drops() || l.jobs[0].t.paused {
			ls.schedule(l)
			continue
		}
		l.state = laneRunning
		n = l.together(n)
		dst = append(dst, l.jobs[:n]...)
		l.pop(n)
		return dst, l
	}
	return dst, nil
}

// together returns the number of jobs at the front that one call may have, at most n.
func (l *lane) together(n int) int {
	first := &l.jobs[0]
	if first.alone {
		return 1
	}
	for i := 1; i < min(n, len(l.jobs)); i++ {
		if j := &l.jobs[i]; j.t != first.t || j.alone || !j.due.IsZero() {
			return i
		}
	}
	return min(n, len(l.jobs))
}

// pop removes n jobs from the front.
func (l *lane) pop(n int) {
	clear(l.jobs[:n])
	l.jobs = l.jobs[n:]
}

// expire schedules delayed lanes that are due. It returns the next due time, or false if there is
// none.
func (ls *lanes) expire() (time.Time, bool) {
	now := time.Now()
	for len(ls.delayed) > 0 {
		l := ls.delayed[0]
		if now.Before(l.due) {
			return l.due, true
		}
		heap.Pop(&ls.delayed)
		l.state = laneIdle
		ls.schedule(l)
	}
	return time.Time{}, false
}

// purge removes waiting jobs of tracks that are closing, and schedules the lanes that waited for
// them.
func (ls *lanes) purge() {
	for _, l := range ls.all {
		keep := l.jobs[:0]
		for i := range l.jobs {
			if !l.jobs[i].t.drops() {
				keep = append(keep, l.jobs[i])
			}
		}
		clear(l.jobs[len(keep):])
		l.jobs = keep
		if l.state == laneDelayed {
			heap.Remove(&ls.delayed, l.index)
			l.state = laneIdle
			ls.schedule(l)
		}
	}
	ls.release()
}

// release schedules held lanes again: after Resume, or when their jobs are dropped.
func (ls *lanes) release() {
	held := ls.held
	ls.held = nil
	for _, l := range held {
		l.state = laneIdle
		ls.schedule(l)
	}
}

// notify puts a token into a channel if there is room.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// delayedLanes is a heap by due time.
type delayedLanes []*lane

func (d delayedLanes) Len() int           { return len(d) }
func (d delayedLanes) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d delayedLanes) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *delayedLanes) Push(x any) {
	l := x.(*lane)
	l.index = len(*d)
	*d = append(*d, l)
}

func (d *delayedLanes) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = nil
	*d = (*d)[:len(*d)-1]
	return last
}
