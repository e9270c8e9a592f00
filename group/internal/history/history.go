package history

import (
	"iter"
	"strings"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/record"
)

// A Stage is how far the rebalance of a group is.
type Stage uint8

// The stages of a group.
const (
	None     Stage = iota // the group does not exist
	Empty                 // it has no members
	Joining               // its next generation, or target assignment, is due
	Joined                // its members wait for their partitions
	Assigned              // it has no rebalance
)

// A Phase is the part of a group's state that determines its events.
type Phase struct {
	Stage      Stage
	Type       protocol.GroupType
	Generation int32 // or group epoch
	Joined     int32 // last generation whose members are known, or the epoch of the target assignment
	Size       int   // number of members
}

// Owners yields members with the partitions that they have.
type Owners = iter.Seq2[protocol.MemberInfo, []record.TopicPartition]

// A Subject is the group of a History.
type Subject interface {
	Phase() Phase                    // takes the same time for groups of every size
	DescribeEvent(e *protocol.Event) // sets the assignor of an event
	Owners() Owners                  // members with their present partitions
}

// A History is the history of one group. The zero value is ready, and belongs to a group that does
// not exist. It is not safe for concurrent use.
type History struct {
	// Wanted reports whether events are read. If not, they have neither members nor moved
	// partitions. nil means that they are not read.
	Wanted func() bool

	// The open step. Settle or Discard ends it.
	now    time.Time
	noted  causes
	waited string // see Event.WaitedFor; "": no news

	// The open rebalance, if open is set.
	open      bool
	causes    causes
	began     time.Time
	joined    time.Time
	waitedFor string
	had       map[share]struct{} // partitions of members before the rebalance; nil: not known

	phase     Phase     // after the last step
	events    []any     // *protocol.Event
	refusedAt time.Time // of the last CommitRefused event
	refused   int       // commits refused since then
}

// causes are the first causes, and the number of further ones.
type causes struct {
	list []protocol.Cause
	more int
}

func (c *causes) add(o causes) {
	room := min(protocol.MaxCauses-len(c.list), len(o.list))
	c.list = append(c.list, o.list[:room]...)
	c.more += o.more + len(o.list) - room
}

// A share is a partition of a member. owner is the instance id of a static member, else the id.
type share struct {
	owner string
	tp    record.TopicPartition
}

// Begin opens a step.
func (h *History) Begin(now time.Time) {
	h.now = now
	h.Discard()
}

// Discard drops the notes of the open step.
func (h *History) Discard() {
	if h.noted.more+len(h.noted.list) > 0 {
		h.noted = causes{}
	}
	h.waited = ""
	if !h.open {
		h.had = nil
	}
}

// Note adds a cause to the open step.
func (h *History) Note(c protocol.Cause) {
	if len(h.noted.list) == protocol.MaxCauses || h.open && len(h.causes.list)+len(h.noted.list) >= protocol.MaxCauses {
		h.noted.more++
		return
	}
	c.Time = h.now
	for _, s := range []*string{&c.Member, &c.InstanceID, &c.ClientID, &c.Topic, &c.Reason} {
		*s = clip(*s)
	}
	h.noted.list = append(h.noted.list, c)
}

// clip bounds a text of a client, and replaces bytes that are not UTF-8.
func clip(s string) string {
	if len(s) > protocol.MaxReason {
		s = strings.Clone(s[:protocol.MaxReason])
	}
	return strings.ToValidUTF8(s, "")
}

// WaitedFor notes that others waited for a member until the open step.
func (h *History) WaitedFor(id string) { h.waited = clip(id) }

// Hold keeps the owners before a rebalance, to count the partitions that it moves. During a
// rebalance it does nothing.
func (h *History) Hold(s Subject) {
	if h.open || h.had != nil || h.Wanted == nil || !h.Wanted() {
		return
	}
	h.had = make(map[share]struct{})
	for m, tps := range s.Owners() {
		for _, tp := range tps {
			h.had[share{owner(m), tp}] = struct{}{}
		}
	}
}

// Pending reports whether the open step has noted a cause.
func (h *History) Pending() bool { return len(h.noted.list) > 0 }

func owner(m protocol.MemberInfo) string {
	if m.InstanceID != "" {
		return m.InstanceID
	}
	return m.ID
}

// Resume makes p the phase of a group that was loaded from a log. If a rebalance had begun, the load
// is its cause.
func (h *History) Resume(p Phase) {
	h.phase = p
	if p.Stage == Joining || p.Stage == Joined {
		h.begin()
		h.causes.list = append(h.causes.list, protocol.Cause{Kind: protocol.CauseCoordinatorLoaded, Time: h.now})
		if p.Stage == Joined {
			h.joined = h.now
		}
	}
}

func (h *History) begin() {
	if h.open {
		return
	}
	h.open, h.causes, h.began, h.joined, h.waitedFor = true, causes{}, h.now, time.Time{}, ""
}

func (h *History) end() {
	h.open, h.causes, h.had = false, causes{}, nil
}

// Settle ends the open step, which has changed s.
func (h *History) Settle(s Subject) {
	was, p := h.phase, s.Phase()
	if p == was && !h.Pending() && h.waited == "" {
		return
	}
	h.phase = p
	generation := p.Stage > Joining && (p.Joined != was.Joined || p.Type != was.Type || was.Stage <= Empty)
	begins := generation || p.Stage == Joining && was.Stage != Joining
	ends := p.Stage <= Empty && was.Stage > p.Stage
	if begins || ends {
		h.begin()
	}
	if h.open {
		h.causes.add(h.noted)
		if h.waited != "" {
			h.waitedFor = h.waited
		}
	}
	emit := func(k protocol.EventKind, of int32) *protocol.Event {
		e := h.event(k, p, of)
		s.DescribeEvent(e)
		return e
	}
	if begins && was.Stage != Joining {
		of := p.Generation
		if generation && p.Type == protocol.Classic {
			of = was.Generation
		}
		emit(protocol.Joining, of)
	}
	if generation {
		h.joined = h.now
		emit(protocol.Joined, p.Joined)
	}
	switch {
	case ends && p.Stage == None:
		h.event(protocol.Removed, p, was.Generation).Type = was.Type
		h.end()
	case ends:
		h.event(protocol.Emptied, p, p.Generation).Ended = h.now
		h.end()
	case p.Stage == Assigned && h.open:
		e := emit(protocol.Assigned, p.Joined)
		e.Ended = h.now
		h.describeOwners(e, s.Owners)
		h.end()
	}
	h.Discard()
}

// event appends an event.
func (h *History) event(k protocol.EventKind, p Phase, generation int32) *protocol.Event {
	e := &protocol.Event{Time: h.now, Kind: k, Type: p.Type, Generation: generation, Size: p.Size,
		Causes: h.causes.list[:len(h.causes.list):len(h.causes.list)], MoreCauses: h.causes.more, Began: h.began, Joined: h.joined}
	if k == protocol.Joined || k == protocol.Assigned {
		e.WaitedFor = h.waitedFor
	}
	h.events = append(h.events, e)
	return e
}

// describeOwners fills in the members of an Assigned event, and counts the moved partitions.
func (h *History) describeOwners(e *protocol.Event, owners func() Owners) {
	if h.Wanted == nil || !h.Wanted() {
		return
	}
	if h.had == nil {
		e.Moved = -1
	}
	room := protocol.MaxEventPartitions
	for m, tps := range owners() {
		for _, tp := range tps {
			if _, had := h.had[share{owner(m), tp}]; !had && h.had != nil {
				e.Moved++
			}
		}
		if len(e.Members) < protocol.MaxEventMembers {
			m.ID, m.InstanceID, m.ClientID, m.ClientHost = clip(m.ID), clip(m.InstanceID), clip(m.ClientID), clip(m.ClientHost)
			m.Assignment = append(m.Assignment[:0:0], tps[:min(room, len(tps))]...)
			room -= len(m.Assignment)
			e.Members = append(e.Members, m)
		}
	}
}

// refusedEvery is the least time between two CommitRefused events of a group.
const refusedEvery = time.Second

// Refused records that a commit was rejected with err.
func (h *History) Refused(member string, generation int32, err error) {
	h.refused++
	if !h.refusedAt.IsZero() && h.now.Sub(h.refusedAt) < refusedEvery {
		return
	}
	h.events = append(h.events, &protocol.Event{Time: h.now, Kind: protocol.CommitRefused, Type: h.phase.Type, Generation: generation,
		Size: h.phase.Size, Member: clip(member), Err: err, Refused: h.refused})
	h.refusedAt, h.refused = h.now, 0
}

// Take returns the events since the last call, each a *protocol.Event. The caller owns the slice.
func (h *History) Take() []any {
	events := h.events
	h.events = nil
	return events
}
