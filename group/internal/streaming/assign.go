package streaming

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/javahash"
)

// AssignorName is the name of the only assignor. Kafka: StickyTaskAssignor.
const AssignorName = "sticky"

// A worker is a member as the assignor sees it.
type worker struct {
	id, process string
	before      *target // the present target
	fresh       bool    // it has no present target
	n           int     // tasks in the new target
}

func (w *worker) load() float64 { return float64(w.n) }

// A process is an instance of the application: its members share one machine.
type process struct {
	id      string
	members []*worker // in Kafka's order
	idlest  queue[*worker]
	n       int // tasks of its members
	has     map[task]bool
}

// load returns the average number of tasks of the process's members.
func (p *process) load() float64 { return float64(p.n) / float64(len(p.members)) }

// A quota is the most tasks of each member, for an even distribution: the remaining tasks, divided
// by the members without their share.
type quota struct{ tasks, members int }

func (q *quota) each() int {
	if q.members == 0 {
		return 0
	}
	return (q.tasks + q.members - 1) / q.members
}

// took records that a member now has n tasks. A member with its full quota gets no more; the other
// members share the remaining tasks.
func (q *quota) took(n int) {
	if n == q.each() {
		q.tasks -= n
		q.members--
	}
}

// sharing is the state of one call of assign: the members, their former tasks and their new ones.
type sharing struct {
	processes map[string]*process
	order     []string  // of processes, as Kafka has them
	workers   []*worker // in Kafka's order
	out       map[string]*target

	wasActive     map[task]*worker
	wasStandby    map[task][]*worker
	actives, alls quota
	replicas      int // standby tasks of each task that has a state
}

// assign distributes the tasks of a topology to members. members and before, the present targets,
// are by member id. Each task is active at one member. A task of a stateful subtopology is also a
// standby task in replicas other processes, or in all of them if there are fewer. Members keep
// their tasks as long as all members get about the same number. A member with a standby task is the
// first choice when its active task becomes free.
//
// It is Kafka's algorithm, except that complete targets stay as they are. Kafka moves a few tasks
// of a group that it has assigned before.
func assign(members map[string]*member, before map[string]*target, t *topology, tasks map[string]int32, replicas int) map[string]*target {
	s := newSharing(members, before, t, tasks, replicas)
	if s.complete(t, tasks) {
		kept := make(map[string]*target, len(members))
		for _, w := range s.workers {
			kept[w.id] = w.before
		}
		return kept
	}
	s.assignActive(allOf(t, tasks, func(string) bool { return true }))
	if replicas > 0 {
		s.assignStandby(allOf(t, tasks, t.stateful))
	}
	for _, target := range s.out {
		for r := range target {
			slices.SortFunc(target[r], compareTasks)
		}
	}
	return s.out
}

// stateful reports whether tasks of a subtopology have a state that can be copied.
func (t *topology) stateful(id string) bool { return len(t.byID[id].Changelogs) > 0 }

// allOf returns the tasks of the subtopologies for which keep returns true.
func allOf(t *topology, tasks map[string]int32, keep func(id string) bool) (all []task) {
	for _, id := range t.ids {
		for p := int32(0); p < tasks[id] && keep(id); p++ {
			all = append(all, task{id, p})
		}
	}
	return all
}

func newSharing(members map[string]*member, before map[string]*target, t *topology, tasks map[string]int32, replicas int) *sharing {
	s := &sharing{processes: make(map[string]*process), out: make(map[string]*target, len(members)), replicas: replicas,
		wasActive: make(map[task]*worker), wasStandby: make(map[task][]*worker)}
	for _, id := range t.ids {
		n := int(tasks[id])
		s.actives.tasks += n
		s.alls.tasks += n
		if t.stateful(id) {
			s.alls.tasks += n * replicas
		}
	}
	s.actives.members, s.alls.members = len(members), len(members)
	for _, id := range javahash.Order(slices.Sorted(maps.Keys(members)), javahash.Table) {
		w := &worker{id: id, process: members[id].ProcessID, before: before[id]}
		if w.before == nil {
			w.before, w.fresh = &target{}, true
		}
		p := s.processes[w.process]
		if p == nil {
			p = &process{id: w.process, has: make(map[task]bool)}
			s.processes[w.process] = p
			s.order = append(s.order, w.process)
		}
		p.members = append(p.members, w)
		s.workers, s.out[id] = append(s.workers, w), &target{}
		for _, t := range w.before[active] {
			s.wasActive[t] = w
		}
		for _, t := range w.before[standby] {
			s.wasStandby[t] = append(s.wasStandby[t], w)
		}
	}
	s.order = javahash.Order(s.order, javahash.TableFor(len(members)))
	return s
}

// complete reports whether the present targets can stay. Each member has a target, which may be
// empty, and together the targets have all tasks. Each task is active at one member, has one role
// in a process, and has as many standby tasks as possible.
func (s *sharing) complete(t *topology, tasks map[string]int32) bool {
	actives, copies, at := make(map[task]int), make(map[task]int), make(map[string]map[task]bool)
	for _, w := range s.workers {
		if w.fresh {
			return false
		}
		if at[w.process] == nil {
			at[w.process] = make(map[task]bool)
		}
		for r, ts := range w.before {
			for _, x := range ts {
				if at[w.process][x] || x.partition >= tasks[x.subtopology] || role(r) == warmup {
					return false
				}
				at[w.process][x] = true
				if role(r) == active {
					actives[x]++
				} else {
					copies[x]++
				}
			}
		}
	}
	for _, x := range allOf(t, tasks, func(string) bool { return true }) {
		want := 0
		if t.stateful(x.subtopology) {
			want = min(s.replicas, len(s.processes)-1)
		}
		if actives[x] != 1 || copies[x] != want {
			return false
		}
	}
	return true
}

// give gives a task to a member.
func (s *sharing) give(t task, r role, w *worker) {
	p := s.processes[w.process]
	w.n, p.n, p.has[t] = w.n+1, p.n+1, true
	s.out[w.id][r] = append(s.out[w.id][r], t)
	if r == active {
		s.actives.took(w.n)
	}
	s.alls.took(w.n)
}

// keep gives a task to a member that had it, as an active or a standby task.
func (s *sharing) keep(t task, r role, w *worker) {
	s.give(t, r, w)
	s.processes[w.process].idlest = nil // its order is no longer valid
}

// giveAny gives a task to the member of a process with the fewest tasks.
func (s *sharing) giveAny(t task, r role, p *process) {
	if p.idlest == nil {
		p.idlest = queueOf(p.members)
	}
	w := heap.Pop(&p.idlest).(*worker)
	s.give(t, r, w)
	heap.Push(&p.idlest, w)
}

// assignActive assigns each task to one member: its former owner, the owner of its standby task, or
// the least loaded.
func (s *sharing) assignActive(all []task) {
	slices.SortFunc(all, byPartition)
	keeps := func(find func(task) *worker) {
		all = slices.DeleteFunc(all, func(t task) bool {
			w := find(t)
			if w == nil || w.n >= s.actives.each() {
				return false
			}
			s.keep(t, active, w)
			return true
		})
	}
	keeps(func(t task) *worker { return s.wasActive[t] })
	keeps(func(t task) *worker { return s.idlest(s.wasStandby[t], nil) })
	slices.SortFunc(all, compareTasks) // adjacent tasks go to the same member as far as possible
	free := s.byLoad()
	for _, t := range all {
		s.giveIdlest(free, t, active)
	}
}

// idlest returns the least loaded of ws, by process and by member. If not is set, members of
// processes with that task do not count. It returns nil if no member is left.
func (s *sharing) idlest(ws []*worker, not *task) (best *worker) {
	for _, w := range ws {
		p := s.processes[w.process]
		if not != nil && p.has[*not] {
			continue
		}
		if best == nil || p.load() < s.processes[best.process].load() && w.n < best.n {
			best = w
		}
	}
	return best
}

// queue is a heap of processes or members, the least loaded first. It orders equal ones as Java's
// PriorityQueue does, by the order in which they were added and removed. So it makes Kafka's
// choice.
type queue[T interface{ load() float64 }] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].load() < q[j].load() }
func (q queue[T]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue[T]) Push(x any)        { *q = append(*q, x.(T)) }

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

func queueOf[T interface{ load() float64 }](all []T) queue[T] {
	q := make(queue[T], 0, len(all))
	for _, x := range all {
		heap.Push(&q, x)
	}
	return q
}

// byLoad returns all processes, the least loaded first.
func (s *sharing) byLoad() *queue[*process] {
	all := make([]*process, 0, len(s.order))
	for _, id := range s.order {
		all = append(all, s.processes[id])
	}
	q := queueOf(all)
	return &q
}

// giveIdlest assigns a task to the least loaded process without it, if there is one.
func (s *sharing) giveIdlest(q *queue[*process], t task, r role) {
	var passed []*process
	for q.Len() > 0 {
		p := heap.Pop(q).(*process)
		passed = append(passed, p)
		if !p.has[t] {
			s.giveAny(t, r, p)
			break
		}
	}
	for _, p := range slices.Backward(passed) {
		heap.Push(q, p)
	}
}

// assignStandby assigns copies of each task to processes without it: to the former active owner, a
// former standby, or the least loaded.
func (s *sharing) assignStandby(all []task) {
	slices.SortFunc(all, func(a, b task) int { return byPartition(b, a) })
	var rest []task // one for each copy that no process keeps
	for _, t := range all {
		for i := range s.replicas {
			w := s.keepsCopy(t)
			if w == nil {
				rest = append(rest, slices.Repeat([]task{t}, s.replicas-i)...)
				break
			}
			s.keep(t, standby, w)
		}
	}
	slices.SortStableFunc(rest, func(a, b task) int { return compareTasks(b, a) })
	free := s.byLoad()
	for _, t := range rest { // some get no process: there may be too few
		s.giveIdlest(free, t, standby)
	}
}

// keepsCopy returns a member that had a task and can have a copy of it; nil: there is none.
func (s *sharing) keepsCopy(t task) *worker {
	if w := s.wasActive[t]; w != nil && !s.processes[w.process].has[t] && w.n < s.alls.each() {
		return w
	}
	if w := s.idlest(s.wasStandby[t], &t); w != nil && w.n < s.alls.each() {
		return w
	}
	return nil
}
