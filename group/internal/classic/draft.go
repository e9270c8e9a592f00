package classic

import (
	"time"

	"github.com/stratalog/strata/internal/offsets"
)

// A draft has the changes of a Step, so that they can be undone if the log rejects its records,
// for instance because they do not fit in one batch. A member that a rejected join would have
// fenced keeps its state.
//
// A copy of the group would serve too, but its cost grows with the group. A step changes little:
// scalars are copied whole, members before their first edit, map entries one by one.
type draft struct {
	number  uint64 // of the step; member.edited is the last one that edited it
	open    bool
	scalars scalars
	members []memberBefore
	maps    []func() // restore map entries; in the order of the changes
}

type memberBefore struct {
	m   *member
	was member
}

// begin opens a draft.
func (g *Group) begin() {
	d := &g.draft
	d.number++
	d.open, d.scalars = true, g.scalars
}

// edit must be called before a field of m changes.
func (g *Group) edit(m *member) {
	d := &g.draft
	if d.open && m.edited != d.number {
		d.members = append(d.members, memberBefore{m, *m})
		m.edited = d.number
	}
}

// put sets an entry of one of the group's maps, as a part of the draft.
func put[V any](g *Group, m map[string]V, key string, v V) {
	note(g, m, key)
	m[key] = v
}

// remove deletes an entry of one of the group's maps, as a part of the draft.
func remove[V any](g *Group, m map[string]V, key string) {
	note(g, m, key)
	delete(m, key)
}

func note[V any](g *Group, m map[string]V, key string) {
	before, existed := m[key]
	g.draft.maps = append(g.draft.maps, func() {
		if existed {
			m[key] = before
		} else {
			delete(m, key)
		}
	})
}

// Accept implements machine.Machine.
func (g *Group) Accept() {
	if !g.draft.open {
		g.eff = Effects{}
		return
	}
	records, producer := g.eff.Records, g.eff.Producer
	g.close()
	for _, r := range records {
		if producer != nil {
			g.ApplyPending(producer.ID, r)
		} else {
			g.Apply(r)
		}
	}
}

// Discard implements machine.Machine. Only sessions that the step prolonged stay prolonged.
func (g *Group) Discard() {
	d := &g.draft
	if !d.open {
		g.eff = Effects{}
		return
	}
	g.scalars = d.scalars
	for _, b := range d.members {
		*b.m = b.was
	}
	for i := len(d.maps) - 1; i >= 0; i-- {
		d.maps[i]()
	}
	g.close()
}

func (g *Group) close() {
	d := &g.draft
	d.open, g.eff = false, Effects{}
	if len(d.members)+len(d.maps) == 0 {
		return
	}
	clear(d.members)
	clear(d.maps)
	d.members, d.maps = d.members[:0], d.maps[:0]
	if cap(d.members) > keptEdits { // one big rebalance must not pin memory for ever
		d.members, d.maps = nil, nil
	}
}

const keptEdits = 16

// emit adds a record to the effects.
func (g *Group) emit(r offsets.Record) { g.eff.Records = append(g.eff.Records, r) }

func due(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }
