package streaming

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// A task is a partition of a subtopology.
type task struct {
	subtopology string
	partition   int32
}

func compareTasks(a, b task) int {
	return cmp.Or(cmp.Compare(a.subtopology, b.subtopology), cmp.Compare(a.partition, b.partition))
}

// byPartition orders tasks by partition, then subtopology.
func byPartition(a, b task) int {
	return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.subtopology, b.subtopology))
}

// A role is a member's role for a task.
type role int

const (
	active  role = iota // it processes the task
	standby             // it keeps a copy of its state
	warmup              // it builds a copy, to become active
	numRoles
)

// A held is a task with the epoch in which the member got it. Commits of that epoch or a later one
// are valid. Only active tasks have epochs; others have 0.
type held struct {
	task
	epoch int32
}

// A target is the tasks in a member's target, or those in its request, by role, each sorted.
type target [numRoles][]task

// An assignment is the tasks of a member, by role, each sorted.
type assignment [numRoles][]held

func (t *target) equal(o *target) bool {
	return slices.EqualFunc(t[:], o[:], slices.Equal[[]task])
}

func (a *assignment) equal(o *assignment) bool {
	return slices.EqualFunc(a[:], o[:], slices.Equal[[]held])
}

func (a *assignment) empty() bool { return len(a[active])+len(a[standby])+len(a[warmup]) == 0 }

// find returns the held task of a role, if the member has it.
func (a *assignment) find(r role, t task) (held, bool) {
	i, ok := slices.BinarySearchFunc(a[r], t, func(h held, t task) int { return compareTasks(h.task, t) })
	if !ok {
		return held{}, false
	}
	return a[r][i], true
}

// anyOf reports whether t has one of the tasks of a, in the same role.
func (t *target) anyOf(a *assignment) bool {
	for r := range t {
		for _, x := range t[r] {
			if _, ok := a.find(role(r), x); ok {
				return true
			}
		}
	}
	return false
}

// allOf reports whether a has all tasks of t, in the same role.
func (t *target) allOf(a *assignment) bool {
	for r := range t {
		for _, x := range t[r] {
			if _, ok := a.find(role(r), x); !ok {
				return false
			}
		}
	}
	return true
}

// sameAs reports whether t and a are the same tasks.
func (t *target) sameAs(a *assignment) bool {
	u := target{plain(a[active]), plain(a[standby]), plain(a[warmup])}
	return t.equal(&u)
}

func contains(ts []task, t task) bool {
	_, ok := slices.BinarySearchFunc(ts, t, compareTasks)
	return ok
}

// lists are the tasks of a record or a request by role.
func lists(v *offsets.StreamsTaskRoles) [numRoles][]offsets.StreamsTasks {
	return [numRoles][]offsets.StreamsTasks{v.Active, v.Standby, v.Warmup}
}

// targetOf reads tasks of a record or a request.
func targetOf(v *offsets.StreamsTaskRoles) (t target) {
	for r, list := range lists(v) {
		for _, tasks := range list {
			for _, p := range tasks.Partitions {
				t[r] = append(t[r], task{tasks.Subtopology, p})
			}
		}
		slices.SortFunc(t[r], compareTasks)
		t[r] = slices.Compact(t[r])
	}
	return t
}

// assignmentOf reads tasks of a record that may have epochs. Tasks without one get fallback.
func assignmentOf(v *offsets.StreamsTaskRoles, fallback int32) (a assignment) {
	for r, list := range lists(v) {
		for _, tasks := range list {
			for i, p := range tasks.Partitions {
				h := held{task: task{tasks.Subtopology, p}}
				if role(r) == active {
					if h.epoch = fallback; i < len(tasks.Epochs) {
						h.epoch = tasks.Epochs[i]
					}
				}
				a[r] = append(a[r], h)
			}
		}
		slices.SortFunc(a[r], func(x, y held) int { return compareTasks(x.task, y.task) })
		a[r] = slices.CompactFunc(a[r], func(x, y held) bool { return x.task == y.task })
	}
	return a
}

// record is the reverse of assignmentOf.
func (a *assignment) record() offsets.StreamsTaskRoles {
	list := func(r role) []offsets.StreamsTasks {
		out := group(plain(a[r]))
		i := 0
		for k := range out {
			for range out[k].Partitions {
				if r == active {
					out[k].Epochs = append(out[k].Epochs, a[r][i].epoch)
				}
				i++
			}
		}
		return out
	}
	return offsets.StreamsTaskRoles{Active: list(active), Standby: list(standby), Warmup: list(warmup)}
}

// told returns the tasks for a response to the member: without epochs.
func (a *assignment) told() offsets.StreamsTaskRoles {
	t := target{plain(a[active]), plain(a[standby]), plain(a[warmup])}
	return t.record()
}

// record is the reverse of targetOf.
func (t *target) record() offsets.StreamsTaskRoles {
	return offsets.StreamsTaskRoles{Active: group(t[active]), Standby: group(t[standby]), Warmup: group(t[warmup])}
}

// plain returns the tasks of hs.
func plain(hs []held) []task {
	out := make([]task, 0, len(hs))
	for _, h := range hs {
		out = append(out, h.task)
	}
	return out
}

// group returns sorted tasks by subtopology.
func group(ts []task) []offsets.StreamsTasks {
	out := []offsets.StreamsTasks{}
	for _, t := range ts {
		if n := len(out); n == 0 || out[n-1].Subtopology != t.subtopology {
			out = append(out, offsets.StreamsTasks{Subtopology: t.subtopology})
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, t.partition)
	}
	return out
}
