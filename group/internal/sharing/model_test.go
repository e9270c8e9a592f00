package sharing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/compacted"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/sample"
)

// A client is a member from its own view.
type client struct {
	id     string
	epoch  int32 // 0: it has to join
	has    []offsets.TopicIDPartitions
	topics []string
	fresh  bool // it has not sent its topics yet
}

type model struct {
	g       *Group
	cfg     *Config
	now     time.Time
	topics  map[string]modern.Topic
	version int64
	clients []*client
	log     []offsets.Record
	ids     int
	epoch   int32                      // last observed epoch of the group
	pending []offsets.ShareStatesTopic // to be initialised
	ready   states                     // the states in __share_group_state
}

func newModel(clients int) *model {
	m := &model{now: time.UnixMilli(1_000_000), topics: map[string]modern.Topic{}, ready: states{}}
	m.cfg = &Config{MaxSize: 5, Timeouts: func(string) Timeouts {
		return Timeouts{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Assignment: time.Second}
	}}
	m.g = New(classic.NewCommitted("g"), m.cfg)
	m.setTopic("a", 3)
	m.setTopic("b", 2)
	for range clients {
		c := &client{topics: []string{"a", "b"}}
		m.clients = append(m.clients, c)
		m.rename(c)
	}
	return m
}

func (m *model) rename(c *client) {
	m.ids++
	c.id, c.epoch, c.has, c.fresh = fmt.Sprintf("m%03d", m.ids), 0, nil, true
}

func (m *model) setTopic(name string, partitions int32) {
	t := m.topics[name]
	if t.ID == [16]byte{} {
		t.ID = [16]byte{byte(m.version + 1), name[0]}
	}
	t.Partitions = partitions
	m.topics = maps.Clone(m.topics)
	m.topics[name] = t
	m.version++
}

func (m *model) deleteTopic(t require.TestingT, name string) {
	id := m.topics[name].ID
	m.topics = maps.Clone(m.topics)
	delete(m.topics, name)
	m.version++
	delete(m.ready, id)
	m.step(t, classic.EventTopicDeleted{Topic: name, ID: id})
}

// step steps the group twice. A discarded step leaves no trace, and the same event has the same
// effects.
func (m *model) step(t require.TestingT, ev any) machine.Reply {
	before := durable(m.g)
	first := m.g.Step(m.now, ev)
	m.g.Discard()
	require.Equal(t, before, durable(m.g), "%T left something behind", ev)
	eff := m.g.Step(m.now, ev)
	require.Equal(t, first.Records, eff.Records)
	m.g.Accept()
	m.log = append(m.log, eff.Records...)
	if len(eff.Records) > 0 {
		m.checkCompacted(t)
	}
	require.True(t, m.g.epoch >= m.epoch || m.g.epoch == 0, "epochs only grow")
	m.epoch = m.g.epoch
	require.LessOrEqual(t, m.g.assignmentEpoch, m.g.epoch)
	require.LessOrEqual(t, m.g.Size(), m.cfg.MaxSize)
	for _, mem := range m.g.members {
		require.LessOrEqual(t, mem.epoch, m.g.assignmentEpoch)
		require.Contains(t, m.g.sessions, mem.id)
	}
	if len(eff.Replies) == 0 {
		return machine.Reply{}
	}
	return eff.Replies[0]
}

// durable returns the part of a Group's state that the log has.
func durable(g *Group) map[string]any {
	return map[string]any{"epoch": g.epoch, "hash": g.hash, "target epoch": g.assignmentEpoch, "ms": g.assignedMs, "members": maps.Clone(g.members),
		"target": maps.Clone(g.target), "states": maps.Clone(g.states)}
}

// beat sends a heartbeat, whose answer may get lost.
func (m *model) beat(t require.TestingT, c *client, lost bool) error {
	r := &protocol.ShareHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: c.epoch, ClientID: "c", ClientHost: "/h"}
	if c.fresh || c.epoch == 0 {
		r.SubscribedTopics = slices.Clone(c.topics)
	}
	known := m.g.members[c.id] != nil
	ans := m.step(t, EventHeartbeat{ShareHeartbeatRequest: r, Topics: modern.NewTopics(m.version, m.topics), To: 1})
	require.EqualValues(t, 1, ans.To)
	switch cmp.Or(errors.Unwrap(ans.Err), ans.Err) { // without Kafka's text
	case nil:
	case protocol.ErrGroupMaxSize:
		require.False(t, known)
		return ans.Err
	case protocol.ErrUnknownMember, protocol.ErrGroupNotFound:
		require.False(t, known && c.epoch > 0, "a member is one")
		m.rename(c)
		return ans.Err
	case protocol.ErrFencedMemberEpoch: // it joins again
		mem := m.g.members[c.id]
		require.NotContains(t, []int32{mem.epoch, mem.previous}, c.epoch, "it has heard of its last answer, or of the one before")
		c.epoch, c.has = 0, nil
		return ans.Err
	default:
		require.NoError(t, ans.Err)
	}
	a := ans.Value.(Answer)
	m.pending = a.Missing
	if lost {
		c.fresh = true
		return nil
	}
	c.epoch, c.fresh = a.MemberEpoch, false
	if a.Assignment != nil {
		c.has = a.Assignment
	}
	for _, p := range m.g.members[c.id].assigned {
		if name, ok := m.g.topics.Name(p.topic); ok {
			require.Contains(t, m.g.members[c.id].Topics, name, "a member is left with what it does not subscribe to")
		}
	}
	require.Equal(t, m.g.members[c.id].assigned, partitionsOf(c.has), "a client has what the group thinks that it has")
	return nil
}

// initialize reports the missing states as initialized, as the coordinator does.
func (m *model) initialize(t require.TestingT) {
	m.ready, _ = m.ready.with(m.pending)
	m.step(t, EventInitialized{States: m.pending, To: 2})
	m.pending = nil
}

// checkCompacted compares the group with groups that are loaded from the compacted log.
func (m *model) checkCompacted(t require.TestingT) {
	log, want := compacted.Entries(m.log), durable(m.g)
	// the whole log, and a part
	for _, end := range []int{len(log), len(log) * (len(log) % 7) / 7} {
		for _, purged := range []bool{false, true} {
			re := New(classic.NewCommitted("g"), m.cfg)
			compacted.Load(re, compacted.Log(log, end, purged))
			require.Equal(t, want, durable(re), "%d of %d records are compacted, purged=%v", end, len(log), purged)
		}
	}
}

// reload replaces the group by one of a new coordinator, which has only the log.
func (m *model) reload(t require.TestingT) {
	re := New(classic.NewCommitted("g"), m.cfg)
	for _, r := range m.log {
		var value []byte
		if !r.Tombstone() {
			value = r.AppendValue(nil)
		}
		back, known, err := offsets.ParseRecord(r.Key.AppendTo(nil), value)
		require.NoError(t, err)
		require.True(t, known)
		re.Apply(back)
	}
	require.Equal(t, durable(m.g), durable(re))
	m.g = re
	m.step(t, classic.EventLoaded{})
}

// settle makes all clients send heartbeats until no record is added. Then every partition has a
// member, and every member has a partition, of topics that it subscribes to and that have a state.
func (m *model) settle(t require.TestingT) {
	for round := 0; ; round++ {
		require.Less(t, round, 20, "the group does not come to rest")
		m.now = m.now.Add(time.Second)
		m.step(t, classic.EventTick{})
		records := len(m.log)
		for _, c := range m.clients {
			_ = m.beat(t, c, false)
			m.initialize(t)
		}
		if len(m.log) == records && round > 2 {
			break
		}
	}
	of := map[partition]int{}
	alike := map[string][]int{}
	for _, c := range m.clients {
		if m.g.members[c.id] == nil {
			require.Equal(t, m.cfg.MaxSize, m.g.Size())
			continue
		}
		own := map[[16]byte]bool{}
		for _, name := range c.topics {
			own[m.topics[name].ID] = m.topics[name].Partitions > 0
		}
		for _, p := range partitionsOf(c.has) {
			of[p]++
			require.True(t, own[p.topic])
			require.True(t, m.ready.has(p), "nothing is taken of what has no state")
		}
		if own[m.topics["a"].ID] || own[m.topics["b"].ID] {
			require.NotEmpty(t, c.has, "every member has work")
		}
		k := fmt.Sprint(c.topics)
		alike[k] = append(alike[k], len(partitionsOf(c.has)))
	}
	for _, mem := range m.g.members {
		for _, name := range mem.Topics {
			for p := range m.topics[name].Partitions {
				require.NotZero(t, of[partition{m.topics[name].ID, p}], "every partition has a member")
			}
		}
	}
	for k, sizes := range alike {
		require.LessOrEqual(t, slices.Max(sizes)-slices.Min(sizes), 1, "%s: balanced", k)
	}
}

func TestPartitionsOfAShareGroupAreSharedWhateverHappens(t *testing.T) {
	sample.Rapid(t)
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(1, 7).Draw(t, "clients"))
		pick := func() *client { return rapid.SampledFrom(m.clients).Draw(t, "client") }
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0, 1, 2:
				_ = m.beat(t, pick(), false)
			case 3:
				_ = m.beat(t, pick(), true)
			case 4, 5:
				m.initialize(t)
			case 6:
				m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{100, 1000, 5000, 46000}).Draw(t, "ms")) * time.Millisecond)
				m.step(t, classic.EventTick{})
			case 7:
				if c := pick(); c.epoch > 0 {
					m.step(t, EventHeartbeat{ShareHeartbeatRequest: &protocol.ShareHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: leaveEpoch}, To: 1})
					require.NotContains(t, m.g.members, c.id)
					m.rename(c)
				}
			case 8:
				c := pick()
				c.topics, c.fresh = rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"a", "c"}}).Draw(t, "topics"), true
			case 9:
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
				m.setTopic(name, m.topics[name].Partitions+1)
			case 10:
				m.deleteTopic(t, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"))
			case 11:
				m.reload(t)
			}
		}
		m.reload(t)
		m.settle(t)
		m.reload(t)
	})
}

func TestAShareGroupThatIsDeletedLeavesNothing(t *testing.T) {
	m := newModel(2)
	m.settle(t)
	require.ErrorIs(t, m.step(t, classic.EventDelete{To: 3}).Err, protocol.ErrNonEmptyGroup)
	for _, c := range m.clients {
		m.step(t, EventHeartbeat{ShareHeartbeatRequest: &protocol.ShareHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: leaveEpoch}, To: 1})
	}
	require.Equal(t, protocol.Empty, m.g.State())
	require.Len(t, m.g.States(), 2, "what is in __share_group_state is known as long as the group is")
	require.NoError(t, m.step(t, classic.EventDelete{To: 3}).Err)
	require.True(t, m.g.Forgotten())
	m.reload(t)
	require.True(t, m.g.Forgotten())
	require.ErrorIs(t, m.step(t, classic.EventDelete{To: 3}).Err, protocol.ErrGroupNotFound)
}

func TestMemberOfAShareGroupInAnotherEpochIsFenced(t *testing.T) {
	m := newModel(1)
	m.settle(t)
	c := m.clients[0]
	ask := func(epoch int32) error {
		r := &protocol.ShareHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: epoch}
		return m.step(t, EventHeartbeat{ShareHeartbeatRequest: r, Topics: modern.NewTopics(m.version, m.topics), To: 1}).Err
	}
	previous := m.g.members[c.id].previous
	require.NotEqual(t, c.epoch, previous)
	require.NoError(t, ask(previous), "it has not heard of the last one")
	require.ErrorIs(t, ask(c.epoch+1), protocol.ErrFencedMemberEpoch)
	require.ErrorIs(t, ask(c.epoch-2), protocol.ErrFencedMemberEpoch)
}

func TestMemberOfAShareGroupKeepsWhatItHasInACompactedLog(t *testing.T) {
	m := newModel(1)
	m.settle(t)
	c := m.clients[0]
	for _, topics := range [][]string{{"a"}, {"a", "b"}} { // the second is within the assignment interval
		c.topics, c.fresh = topics, true
		require.NoError(t, m.beat(t, c, false))
	}
	re := New(classic.NewCommitted("g"), m.cfg)
	log := compacted.Entries(m.log)
	compacted.Load(re, compacted.Log(log, len(log), true))
	require.NotZero(t, c.epoch)
	require.Equal(t, c.epoch, re.members[c.id].epoch)
	require.Len(t, re.members[c.id].assigned, 3, "all of a")
}

func TestMemberOfAShareGroupHasNothingThatItDoesNotSubscribeTo(t *testing.T) {
	m := newModel(1)
	m.settle(t)
	c := m.clients[0]
	tell := func(topics ...string) []partition {
		c.topics, c.fresh = topics, true
		require.NoError(t, m.beat(t, c, false))
		return partitionsOf(c.has)
	}
	a := tell("a") // a new target
	require.Len(t, a, 3)
	epoch := c.epoch
	require.Empty(t, tell("b"), "within the assignment interval")
	require.Equal(t, a, tell("a", "b"), "what it was meant to have")
	require.Equal(t, epoch, c.epoch)
	m.now = m.now.Add(time.Second)
	require.Len(t, tell("b"), 2)
}
