package classic

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/internal/compacted"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/record"
)

// A model drives a Group with random events and checks its invariants after each one.
type model struct {
	g      *Group
	now    time.Time
	wakeAt time.Time
	ticket machine.Ticket
	ids    int
	open   map[machine.Ticket]bool // requests without a reply
	log    []logged
	known  []string // every member id that was ever given out

	generation int32
	shares     map[string]string // "generation/member" -> assignment, as handed out
	deadline   time.Time         // of the rebalance under way
}

func newModel(cfg Config) *model {
	return &model{g: New("g", &cfg), now: time.Unix(1000, 0), open: map[machine.Ticket]bool{}, shares: map[string]string{}}
}

func (m *model) step(t *rapid.T, ev Event) {
	before := m.g.State()
	eff := m.twice(t, ev)
	m.g.Accept()
	for _, r := range eff.Records {
		l := logged{record: r}
		if eff.Producer != nil {
			l.producer = eff.Producer.ID
		}
		m.log = append(m.log, l)
	}
	for _, r := range eff.Replies {
		require.True(t, m.open[r.To], "request %d has two replies, or is none", r.To)
		delete(m.open, r.To)
		if j, ok := r.Value.(protocol.JoinResponse); ok {
			m.known = append(m.known, j.MemberID)
			require.Equal(t, m.g.generation, j.Generation)
			// an old client that returned as the group leader gets its old id
			if _, there := m.g.members[j.Leader]; !there {
				require.Equal(t, m.g.leader, j.MemberID)
			}
		}
	}
	m.wakeAt = eff.WakeAt
	m.check(t, ev, before)
}

// twice steps the group, discards that, and steps it again. A discarded draft leaves no trace, and
// the same event has the same effects, in the same order.
func (m *model) twice(t *rapid.T, ev Event) Effects {
	before := snapshotOf(m.g)
	refused := m.g.Step(m.now, ev)
	m.g.Discard()
	require.Equal(t, before, snapshotOf(m.g), "%T left something behind", ev)
	eff := m.g.Step(m.now, ev)
	refused.WakeAt = eff.WakeAt // sessions stay extended
	require.Equal(t, refused, eff, "%T", ev)
	return eff
}

// A snapshot is the state of a Group without the times of its members' last heartbeats and of the
// next tick.
type snapshot struct {
	scalars
	members map[string]member
	static  map[string]string
	pending map[string]time.Time
	offsets map[record.TopicPartition]offsets.OffsetValue
	txns    map[int64]map[record.TopicPartition]pendingOffset
	ordered uint64
}

func snapshotOf(g *Group) snapshot {
	s := snapshot{g.scalars, map[string]member{}, maps.Clone(g.static), maps.Clone(g.pending), maps.Clone(g.offsets),
		map[int64]map[record.TopicPartition]pendingOffset{}, g.ordered}
	for id, txn := range g.txns {
		s.txns[id] = maps.Clone(txn)
	}
	s.wakeAt = time.Time{} // it follows from the sessions
	for id, m := range g.members {
		c := *m
		c.deadline, c.edited = time.Time{}, 0
		s.members[id] = c
	}
	return s
}

func (m *model) check(t *rapid.T, ev Event, before protocol.State) {
	g := m.g
	if len(g.members) == 0 && !g.persisted && g.generation == 0 {
		// the group was deleted: its generations start again
		m.generation, m.shares = 0, map[string]string{}
	}
	require.GreaterOrEqual(t, g.generation, m.generation, "generations only grow")
	m.generation = g.generation
	require.False(t, g.state == protocol.Dead && len(g.pending) > 0, "ids are given out by groups that are there")
	switch g.state {
	case protocol.Dead, protocol.Empty:
		require.Empty(t, g.members)
	default:
		// these two wait for members
		if g.state != protocol.PreparingRebalance || !g.initial && len(g.pending) == 0 {
			require.NotEmpty(t, g.members)
		}
		if len(g.members) > 0 {
			require.Contains(t, g.members, g.leader)
		}
	}
	if g.state == protocol.Stable { // a member's share never changes within a generation
		for _, mem := range g.members {
			key := fmt.Sprintf("%d/%s", g.generation, mem.instanceID+mem.id)
			if mem.instanceID != "" {
				key = fmt.Sprintf("%d/%s", g.generation, mem.instanceID)
			}
			share, seen := m.shares[key]
			if seen {
				require.Equal(t, share, string(mem.assignment), key)
			}
			m.shares[key] = string(mem.assignment)
		}
	}
	if g.state == protocol.PreparingRebalance {
		require.False(t, g.joinDeadline.IsZero())
		_, tick := ev.(EventTick)
		if before == protocol.PreparingRebalance && !tick {
			require.Equal(t, m.deadline, g.joinDeadline, "the rebalance timer started again")
		}
		require.True(t, g.initial || len(g.pending) > 0 || g.awaitingJoin() < len(g.members), "nobody is missing")
		m.deadline = g.joinDeadline
	} else {
		require.True(t, g.joinDeadline.IsZero())
		require.Zero(t, g.awaitingJoin())
	}
	parked := map[machine.Ticket]bool{}
	for _, mem := range g.members {
		if mem.joining && mem.joinTicket != 0 {
			parked[mem.joinTicket] = true
		}
		if mem.syncing && mem.syncTicket != 0 {
			parked[mem.syncTicket] = true
			require.Equal(t, protocol.CompletingRebalance, g.state)
		}
		if mem.instanceID != "" {
			require.Equal(t, mem.id, g.static[mem.instanceID])
		}
	}
	require.Equal(t, m.open, parked, "requests that nobody will ever answer")
	if next := g.nextDeadline(); !next.IsZero() {
		require.False(t, m.wakeAt.IsZero())
		require.False(t, m.wakeAt.After(next), "nobody is going to wake the group in time")
	}
	m.checkReplay(t)
	m.checkOffsets(t)
}

// checkOffsets compares the offsets with the offsets in the log alone. The last offset or
// tombstone of a partition counts, except in transactions that were not committed. An offset is
// pending while its transaction is open and no tombstone follows.
func (m *model) checkOffsets(t *rapid.T) {
	counts, pending := map[record.TopicPartition]offsets.OffsetValue{}, map[record.TopicPartition]struct{}{}
	decided := map[int64]logged{} // filled from the end of the log on
	settled := map[record.TopicPartition]bool{}
	deleted := map[record.TopicPartition]bool{}
	for _, l := range slices.Backward(m.log) {
		tp := topicPartition(l.record.Key)
		end, over := decided[l.producer]
		switch {
		case l.end:
			decided[l.producer] = l
		case l.record.Key.Type != offsets.KeyOffset:
		case l.producer != 0 && !over:
			if !deleted[tp] {
				pending[tp] = struct{}{}
			}
		case l.producer != 0 && !end.commit, settled[tp]:
			deleted[tp] = deleted[tp] || l.record.Offset == nil
		default:
			settled[tp] = true
			if l.record.Offset != nil {
				counts[tp] = *l.record.Offset
			} else {
				deleted[tp] = true
			}
		}
	}
	require.Equal(t, counts, m.g.offsets)
	if len(pending) == 0 {
		pending = nil
	}
	require.Equal(t, pending, m.g.UnstableOffsets())
}

// checkReplay compares the group with a group that is loaded from the log alone.
func (m *model) checkReplay(t *rapid.T) {
	re := New("g", m.g.cfg)
	for _, l := range m.log {
		l.apply(re)
	}
	require.Equal(t, m.g.offsets, re.offsets)
	require.Equal(t, len(m.g.txns), len(re.txns))
	for id, txn := range m.g.txns {
		require.Equal(t, txn, re.txns[id], "pending offsets of producer %d", id)
	}
	if m.g.state == protocol.Stable || m.g.state == protocol.Empty || m.g.state == protocol.Dead {
		require.Equal(t, m.g.state, re.state)
		require.Equal(t, m.g.generation, re.generation)
		require.Equal(t, m.g.leader, re.leader)
		require.Equal(t, len(m.g.members), len(re.members))
		for id, mem := range m.g.members {
			require.Equal(t, string(mem.assignment), string(re.members[id].assignment))
			require.Equal(t, mem.instanceID, re.members[id].instanceID)
		}
	}
	require.LessOrEqual(t, re.generation, m.g.generation)
	m.checkCompacted(t, re)
}

// checkCompacted compares a group that is loaded from the whole log with groups that are loaded
// from the compacted log.
func (m *model) checkCompacted(t *rapid.T, whole *Group) {
	var log []compacted.Entry
	for _, l := range m.log {
		log = append(log, compacted.Entry{Record: l.record, Producer: l.producer, End: l.end, Commit: l.commit})
	}
	stable := compacted.Stable(log)
	want := loadedOf(whole)
	// the whole compactable part, and a part of it
	for _, end := range []int{stable, stable * (len(log) % 7) / 7} {
		for _, purged := range []bool{false, true} {
			re := New("g", m.g.cfg)
			compacted.Load(re, compacted.Log(log, end, purged))
			require.Equal(t, want, loadedOf(re), "%d of %d entries are compacted, purged=%v", end, len(log), purged)
		}
	}
}

// A loaded is the state of a group that has just been loaded, without plain counters.
type loaded struct {
	scalars
	members []member
	static  map[string]string
	offsets map[record.TopicPartition]offsets.OffsetValue
	txns    map[int64]map[record.TopicPartition]pendingOffset
}

func loadedOf(g *Group) loaded {
	l := loaded{scalars: g.scalars, static: g.static, offsets: g.offsets, txns: map[int64]map[record.TopicPartition]pendingOffset{}}
	l.joined = 0
	for _, m := range g.inOrder() {
		c := *m
		c.seq = 0
		l.members = append(l.members, c)
	}
	for id, txn := range g.txns {
		l.txns[id] = maps.Clone(txn)
		for tp, p := range txn {
			p.order = 0
			l.txns[id][tp] = p
		}
	}
	return l
}

// end ends a transaction.
func (m *model) end(t *rapid.T, producerID int64, commit bool) {
	l := logged{producer: producerID, end: true, commit: commit}
	m.log = append(m.log, l)
	l.apply(m.g)
	m.check(t, nil, m.g.state)
}

func (m *model) request() machine.Ticket {
	m.ticket++
	m.open[m.ticket] = true
	return m.ticket
}

func (m *model) anyID(t *rapid.T) string {
	ids := append(slices.Sorted(maps.Keys(m.g.members)), slices.Sorted(maps.Keys(m.g.pending))...)
	return rapid.SampledFrom(append(ids, m.known...)).Draw(t, "id")
}

func (m *model) assignments() map[string][]byte {
	out := map[string][]byte{}
	for id := range m.g.members {
		out[id] = fmt.Appendf(nil, "%s@%d", id, m.g.generation)
	}
	return out
}

func (m *model) pass(t *rapid.T, d time.Duration) {
	end := m.now.Add(d)
	for n := 0; !m.wakeAt.IsZero() && !m.wakeAt.After(end); n++ {
		require.Less(t, n, 10_000, "ticks without end")
		if m.wakeAt.After(m.now) {
			m.now = m.wakeAt
		}
		m.step(t, EventTick{})
	}
	m.now = end
}

func TestGroupKeepsItsInvariants(t *testing.T) {
	for _, cfg := range []Config{{}, {InitialRebalanceDelay: 3 * time.Second}, {MaxSize: 3}, {Limits: Limits{OffsetsRetention: 30 * time.Second}}} {
		t.Run(fmt.Sprintf("%+v", cfg.InitialRebalanceDelay)+fmt.Sprint(cfg.MaxSize, cfg.OffsetsRetention), func(t *testing.T) {
			rounds := 10 // of 100 sequences
			if sample.Hurried() {
				rounds = 3
			}
			for range rounds {
				rapid.Check(t, func(t *rapid.T) {
					m := newModel(cfg)
					t.Repeat(m.actions())
					m.pass(t, time.Hour) // no member sends requests any more
					for id := range m.g.txns {
						m.end(t, id, true)
					}
					require.Contains(t, []protocol.State{protocol.Empty, protocol.Dead}, m.g.State())
					require.Empty(t, m.open)
				})
			}
		})
	}
}
