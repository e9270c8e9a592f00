package assignor

import (
	"cmp"
	"slices"

	"github.com/stratalog/strata/record"
)

// general is the sticky algorithm for members with different subscriptions (Kafka:
// AbstractStickyAssignor's GeneralAssignmentBuilder). Members keep partitions that they still may
// own. Each other partition goes to its least loaded subscriber. Then partitions move one by one
// while that makes the loads more even. Moves that did not improve the score are undone.
type general struct {
	*stickyInput
	consumers [][]int // by topic: members subscribed, by id
	parts     []record.TopicPartition
	topicOf   []int // by partition: index of its topic
	index     map[record.TopicPartition]int

	owner    []int  // by partition: member, -1 none
	previous []int  // by partition: owner in an older generation, -1 none
	load     []int  // by member: number of partitions owned
	order    []int  // members without the fixed ones, by load, then id
	fixed    []bool // by member: takes no part in moves
	moves    movements
	revoking bool // a member owned a partition of a topic that it no longer subscribes to
}

func newGeneral(s *stickyInput) *general {
	g := &general{stickyInput: s, consumers: make([][]int, len(s.topics)), index: make(map[record.TopicPartition]int),
		load: make([]int, len(s.members)), fixed: make([]bool, len(s.members))}
	for i, topics := range s.subscribed {
		for _, t := range topics {
			g.consumers[t] = append(g.consumers[t], i)
		}
	}
	// Partitions with the fewest potential owners come first, they are the hardest to place.
	topics := make([]int, len(s.topics))
	for t := range topics {
		topics[t] = t
	}
	slices.SortStableFunc(topics, func(a, b int) int { return cmp.Compare(len(g.consumers[a]), len(g.consumers[b])) })
	for _, t := range topics {
		for p := range s.partitions[s.topics[t]] {
			tp := record.TopicPartition{Topic: s.topics[t], Partition: p}
			g.index[tp] = len(g.parts)
			g.parts = append(g.parts, tp)
			g.topicOf = append(g.topicOf, t)
			g.owner = append(g.owner, -1)
			g.previous = append(g.previous, -1)
		}
	}
	g.moves = newMovements(g.topicOf)
	return g
}

func (g *general) assign() map[string][]record.TopicPartition {
	g.resolveClaims()
	var unassigned []int
	for p := range g.parts {
		if g.owner[p] < 0 {
			unassigned = append(unassigned, p)
		}
	}
	for i := range g.members {
		g.order = append(g.order, i)
	}
	slices.SortFunc(g.order, g.byLoad)
	g.balance(unassigned)
	out := make(map[string][]record.TopicPartition, len(g.members))
	for p, i := range g.owner {
		if i >= 0 {
			out[g.members[i].ID] = append(out[g.members[i].ID], g.parts[p])
		}
	}
	return out
}

// resolveClaims takes over the claims of members in the newest generation as owners. Older claims
// only set previous.
func (g *general) resolveClaims() {
	newest := slices.Max(g.generation)
	since := make([]int32, len(g.parts))
	contested := make(map[int]bool)
	for i, claims := range g.claimed {
		for _, tp := range claims {
			p, ok := g.index[tp]
			switch {
			case !ok:
			case g.generation[i] < newest:
				if g.previous[p] < 0 || g.generation[i] > since[p] {
					g.previous[p], since[p] = i, g.generation[i]
				}
			case g.owner[p] >= 0 && g.owner[p] != i:
				contested[p] = true // two owners in one generation: both claims are dropped
			default:
				g.owner[p] = i
			}
		}
	}
	for p, i := range g.owner {
		switch {
		case contested[p]:
			g.owner[p] = -1
		case i >= 0 && !g.mayOwn(i, p):
			g.owner[p], g.revoking = -1, true // no longer subscribed
		case i >= 0:
			g.load[i]++
		}
	}
}

func (g *general) mayOwn(member, p int) bool {
	_, ok := slices.BinarySearch(g.subscribed[member], g.topicOf[p])
	return ok
}

func (g *general) balance(unassigned []int) {
	fresh := g.load[g.order[len(g.order)-1]] == 0 // no member had a partition
	for _, p := range unassigned {
		for _, i := range g.order {
			if g.mayOwn(i, p) {
				g.own(p, i)
				break
			}
		}
	}
	movable := make([]int, 0, len(g.parts))
	for p := range g.parts {
		if len(g.consumers[g.topicOf[p]]) > 1 {
			movable = append(movable, p)
		}
	}
	g.leaveOutFixed()
	if len(g.order) == 0 {
		return
	}
	owner, load := slices.Clone(g.owner), slices.Clone(g.load)
	if !g.revoking { // first try to balance by moving only the newly assigned partitions
		fresher := slices.DeleteFunc(slices.Clone(unassigned), func(p int) bool { return len(g.consumers[g.topicOf[p]]) <= 1 })
		g.reassign(fresher)
	}
	if moved := g.reassign(movable); moved && !fresh && g.score(g.load) >= g.score(load) {
		g.owner, g.load = owner, load
	}
}

// leaveOutFixed excludes members that cannot take part in moves: they own every partition of their
// topics, and none of these has another subscriber.
func (g *general) leaveOutFixed() {
	movable := make([]bool, len(g.members))
	for p, i := range g.owner {
		if i >= 0 && len(g.consumers[g.topicOf[p]]) > 1 {
			movable[i] = true
		}
	}
	for i, topics := range g.subscribed {
		most := 0
		for _, t := range topics {
			most += int(g.partitions[g.topics[t]])
		}
		g.fixed[i] = g.load[i] >= most && !movable[i]
	}
	g.order = slices.DeleteFunc(g.order, func(i int) bool { return g.fixed[i] })
}

// reassign moves partitions of the list until no move makes loads more even. It reports whether a
// partition moved.
func (g *general) reassign(list []int) (moved bool) {
	balanced := g.balanced()
	for again := true; again && !balanced; {
		again = false
		for _, p := range list {
			to := g.betterOwner(p)
			if to < 0 {
				continue
			}
			q := g.moves.instead(p, g.owner[p], to)
			if g.load[g.owner[q]] <= g.load[to]+1 {
				// moving q would not make it better; without this check the loop might not end
				q = p
			}
			g.own(q, to)
			moved, again = true, true
			if balanced = g.balanced(); balanced {
				break
			}
		}
	}
	return moved
}

// betterOwner returns the member that p should move to, or -1. The member must have at least two
// partitions less than the present owner. The previous owner comes first, then the least loaded
// subscriber.
func (g *general) betterOwner(p int) int {
	from := g.owner[p]
	if prev := g.previous[p]; prev >= 0 && g.mayOwn(prev, p) && g.load[from] > g.load[prev]+1 {
		return prev
	}
	least := -1
	for _, i := range g.consumers[g.topicOf[p]] {
		if !g.fixed[i] && (least < 0 || g.load[i] < g.load[least]) {
			least = i
		}
	}
	if least >= 0 && g.load[from] > g.load[least]+1 {
		return least
	}
	return -1
}

// balanced reports whether no member can get a partition from one with at least two more.
func (g *general) balanced() bool {
	if g.load[g.order[0]] >= g.load[g.order[len(g.order)-1]]-1 {
		return true
	}
	most := make([]int, len(g.topics)) // by topic: the load of its most loaded owner
	for p, i := range g.owner {
		if i >= 0 && !g.fixed[i] {
			most[g.topicOf[p]] = max(most[g.topicOf[p]], g.load[i])
		}
	}
	for _, i := range g.order {
		for _, t := range g.subscribed[i] {
			if g.load[i]+1 < most[t] {
				return false
			}
		}
	}
	return true
}

// score is the sum of the differences of load between all pairs of members that take part; 0 is
// perfect.
func (g *general) score(load []int) int {
	var loads []int
	for i, n := range load {
		if !g.fixed[i] {
			loads = append(loads, n)
		}
	}
	slices.Sort(loads)
	score, sum := 0, 0
	for k, n := range loads {
		score += n*k - sum
		sum += n
	}
	return score
}

func (g *general) byLoad(a, b int) int {
	return cmp.Or(cmp.Compare(g.load[a], g.load[b]), cmp.Compare(a, b))
}

// own makes member i the owner of p.
func (g *general) own(p, i int) {
	if from := g.owner[p]; from >= 0 {
		g.moves.moved(p, from, i)
		g.setLoad(from, g.load[from]-1)
	}
	g.owner[p] = i
	g.setLoad(i, g.load[i]+1)
}

// setLoad keeps order sorted.
func (g *general) setLoad(i, load int) {
	if at, ok := slices.BinarySearchFunc(g.order, i, g.byLoad); ok {
		g.order = slices.Delete(g.order, at, at+1)
		g.load[i] = load
		at, _ = slices.BinarySearchFunc(g.order, i, g.byLoad)
		g.order = slices.Insert(g.order, at, i)
		return
	}
	g.load[i] = load
}
