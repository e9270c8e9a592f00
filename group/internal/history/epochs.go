package history

import "github.com/stratalog/strata/group/internal/protocol"

// A Roster counts the members of a group with epochs that have not their whole target. The zero
// value counts them at the next Settled.
type Roster[M any] struct {
	behind int
	known  bool
}

// Reset is called when the target has changed.
func (r *Roster[M]) Reset() { r.known = false }

// Set replaces a member in members; nil removes it. reached reports whether a member has its whole
// target.
func (r *Roster[M]) Set(members map[string]*M, id string, m *M, reached func(*M) bool) {
	if r.known {
		if old := members[id]; old != nil && !reached(old) {
			r.behind--
		}
		if m != nil && !reached(m) {
			r.behind++
		}
	}
	if m == nil {
		delete(members, id)
	} else {
		members[id] = m
	}
}

// Settled reports whether each of members has its whole target.
func (r *Roster[M]) Settled(members map[string]*M, reached func(*M) bool) bool {
	if !r.known {
		r.behind, r.known = 0, true
		for _, m := range members {
			if !reached(m) {
				r.behind++
			}
		}
	}
	return r.behind == 0
}

// OfEpochs returns the phase of a group with epochs: its group epoch, the epoch of its target
// assignment, and its number of members. A group without members need not exist. settled reports
// whether each member has its whole target.
func OfEpochs(t protocol.GroupType, epoch, target int32, members int, exists bool, settled func() bool) Phase {
	p := Phase{Type: t, Generation: epoch, Joined: target, Size: members}
	switch {
	case members == 0 && !exists:
		p.Stage = None
	case members == 0:
		p.Stage = Empty
	case epoch > target:
		p.Stage = Joining
	case !settled():
		p.Stage = Joined
	default:
		p.Stage = Assigned
	}
	return p
}
