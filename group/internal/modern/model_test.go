package modern

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

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/compacted"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/re2"
	"github.com/stratalog/strata/record"
)

// A client is a member from the view of its consumer.
type client struct {
	id, instance string
	epoch        int32 // 0: it has to join
	owned, told  []offsets.TopicIDPartitions
	topics       []string
	regex        string
	fresh        bool // it has not sent its subscription yet
}

type model struct {
	g       *Group
	cfg     *Config
	now     time.Time
	topics  map[string]Topic
	version int64
	clients []*client
	log     []offsets.Record
	ids     int
	epoch   int32 // last observed epoch of the group
}

func newModel(clients int) *model {
	m := &model{now: time.UnixMilli(1_000_000), topics: map[string]Topic{}}
	m.cfg = &Config{Timeouts: func(string) Timeouts {
		return Timeouts{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Assignment: time.Second}
	},
		Assignors: []assignor.Assignor{assignor.Uniform(), assignor.Range()}, Limits: classic.Limits{OffsetMetadataMax: 100}, Migration: Migration{true, true}}
	m.g = New(classic.NewCommitted("g"), m.cfg)
	m.setTopic("a", 4)
	m.setTopic("b", 3)
	for i := range clients {
		c := &client{topics: []string{"a", "b"}}
		if i%3 == 2 {
			c.instance = fmt.Sprintf("i%d", i)
		}
		m.clients = append(m.clients, c)
		m.rename(c)
	}
	return m
}

func (m *model) rename(c *client) {
	m.ids++
	c.id, c.epoch, c.owned, c.fresh = fmt.Sprintf("m%03d", m.ids), 0, []offsets.TopicIDPartitions{}, true
	c.told = c.owned
}

func (m *model) setTopic(name string, partitions int32) {
	t := m.topics[name]
	if t.ID == [16]byte{} {
		t.ID = [16]byte{byte(len(m.topics) + 1), name[0]}
	}
	t.Partitions = partitions
	m.topics = maps.Clone(m.topics)
	m.topics[name] = t
	m.version++
}

// step steps the group twice. A discarded step leaves no trace, and the same event has the same
// effects.
func (m *model) step(t require.TestingT, ev any) machine.Reply {
	before := m.durable()
	first := m.g.Step(m.now, ev)
	m.g.Discard()
	require.Equal(t, before, m.durable(), "%T left something behind", ev)
	eff := m.g.Step(m.now, ev)
	require.Equal(t, first.Records, eff.Records)
	m.g.Accept()
	m.log = append(m.log, eff.Records...)
	if len(eff.Records) > 0 {
		m.checkCompacted(t)
	}
	m.check(t)
	if len(eff.Replies) == 0 {
		return machine.Reply{}
	}
	return eff.Replies[0]
}

// durable returns the part of a Group's state that the log has.
func (m *model) durable() map[string]any { return durable(m.g) }

func durable(g *Group) map[string]any {
	return map[string]any{"epoch": g.epoch, "hash": g.hash, "target epoch": g.assignmentEpoch, "ms": g.assignedMs, "members": maps.Clone(g.members),
		"target": maps.Clone(g.target), "patterns": maps.Clone(g.patterns), "static": maps.Clone(g.static), "owner": maps.Clone(g.owner),
		"names": maps.Clone(g.names), "users": maps.Clone(g.users), "offsets": maps.Clone(g.Offsets())}
}

// check checks the invariants of the group.
func (m *model) check(t require.TestingT) {
	require.True(t, m.g.epoch >= m.epoch || m.g.epoch == 0, "epochs only grow")
	m.epoch = m.g.epoch
	require.LessOrEqual(t, m.g.assignmentEpoch, m.g.epoch)
	owners := map[partition]string{}
	for _, mem := range m.g.members {
		require.LessOrEqual(t, mem.epoch, m.g.assignmentEpoch)
		for _, h := range slices.Concat(mem.assigned, mem.revoking) {
			require.Empty(t, owners[h.partition], "a partition is with two members")
			owners[h.partition] = mem.id
		}
	}
	require.Equal(t, owners, m.g.owner)
	real := map[partition]string{}
	for _, c := range m.clients {
		mem := m.g.members[c.id]
		if mem == nil || c.epoch <= 0 || mem.epoch == leaveStaticEpoch {
			continue // it was removed and has not noticed yet
		}
		for _, p := range partitionsOf(c.owned) {
			require.Equal(t, c.id, owners[p], "a client has what the group thinks that it has")
			require.Empty(t, real[p])
			real[p] = c.id
		}
	}
}

func (m *model) request(c *client) *protocol.ConsumerHeartbeatRequest {
	r := &protocol.ConsumerHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: c.epoch, InstanceID: c.instance, ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1, Owned: c.owned}
	if c.epoch == 0 {
		c.owned = []offsets.TopicIDPartitions{}
		r.Owned = c.owned
	}
	if c.fresh || c.epoch == 0 {
		r.RebalanceTimeout, r.SubscribedTopics, r.SubscribedRegex = 30*time.Second, slices.Clone(c.topics), &c.regex
	}
	return r
}

// heartbeat sends r, and again with the matches of its expressions if the group requests them.
func (m *model) heartbeat(t require.TestingT, r *protocol.ConsumerHeartbeatRequest) machine.Reply {
	e := EventHeartbeat{ConsumerHeartbeatRequest: r, Topics: NewTopics(m.version, m.topics), To: 1}
	ans := m.step(t, e)
	if u := (*UnmatchedError)(nil); errors.As(ans.Err, &u) {
		e.Matches = match(t, u)
		ans = m.step(t, e)
	}
	return ans
}

func match(t require.TestingT, u *UnmatchedError) *Matches {
	m := &Matches{Version: u.Topics.Version, Topics: map[string][]string{}}
	for _, expr := range u.Exprs {
		re, err := re2.Compile(expr, 1000)
		require.NoError(t, err)
		m.Topics[expr] = slices.DeleteFunc(slices.Sorted(maps.Keys(u.Topics.ByName)), func(name string) bool { return !re.MatchString(name) })
	}
	return m
}

// beat sends a heartbeat, whose answer may get lost, and returns the error.
func (m *model) beat(t require.TestingT, c *client, lost, slow bool) error {
	r := m.request(c)
	ans := m.heartbeat(t, r)
	require.EqualValues(t, 1, ans.To)
	if lost {
		c.fresh = true // after an error clients send and request the full state
		return nil
	}
	switch cmp.Or(errors.Unwrap(ans.Err), ans.Err) { // without Kafka's text
	case nil:
	case protocol.ErrFencedMemberEpoch: // it drops its partitions and joins again
		c.epoch, c.fresh, c.owned = 0, true, []offsets.TopicIDPartitions{}
		return ans.Err
	case protocol.ErrUnknownMember, protocol.ErrFencedInstance, protocol.ErrGroupNotFound:
		m.rename(c)
		return ans.Err
	case protocol.ErrUnreleasedInstance:
		return ans.Err
	default:
		require.NoError(t, ans.Err)
	}
	resp := ans.Value.(protocol.ConsumerHeartbeatResponse)
	c.epoch, c.fresh = resp.MemberEpoch, false
	if resp.Assignment != nil {
		c.told = resp.Assignment
		seen := map[partition]bool{}
		for _, of := range c.told {
			for _, p := range of.Partitions {
				require.False(t, seen[partition{of.TopicID, p}], "a member is told a partition twice")
				seen[partition{of.TopicID, p}] = true
			}
		}
	}
	for _, h := range m.g.members[c.id].assigned {
		name, _ := m.g.topics.Name(h.topic)
		require.Contains(t, (&change{g: m.g}).topicsOf(m.g.members[c.id]), name, "a member is left with what it does not subscribe to")
	}
	if mem := m.g.members[c.id]; mem.state == unreleased && mem.epoch == m.g.assignmentEpoch {
		require.True(t, m.g.awaitsOthers(mem), "a member waits for nobody")
	}
	switch {
	case slow: // it takes the new partitions, and keeps the revoked ones for now
		c.owned = byTopic(slices.Compact(sortedPartitions(append(partitionsOf(c.owned), partitionsOf(c.told)...))))
	default:
		c.owned = c.told
	}
	return nil
}

func sortedPartitions(ps []partition) []partition {
	slices.SortFunc(ps, comparePartitions)
	return ps
}

func (m *model) leave(t require.TestingT, c *client, epoch int32) {
	r := &protocol.ConsumerHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: epoch, InstanceID: c.instance, RebalanceTimeout: -1}
	m.step(t, EventHeartbeat{ConsumerHeartbeatRequest: r, To: 1})
	m.rename(c)
}

func (m *model) tick(t require.TestingT, d time.Duration) {
	m.now = m.now.Add(d)
	m.step(t, classic.EventTick{})
}

// checkCompacted compares the group with groups that are loaded from the compacted log.
func (m *model) checkCompacted(t require.TestingT) {
	log, want := compacted.Entries(m.log), m.durable()
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
		re.Apply(throughBytes(t, r))
	}
	require.Equal(t, m.durable(), durable(re))
	m.g = re
	m.step(t, classic.EventLoaded{})
}

func throughBytes(t require.TestingT, r offsets.Record) offsets.Record {
	var value []byte
	if !r.Tombstone() {
		value = r.AppendValue(nil)
	}
	out, known, err := offsets.ParseRecord(r.Key.AppendTo(nil), value)
	require.NoError(t, err)
	require.True(t, known)
	return out
}

// settle makes all clients send heartbeats until no record is added, and checks the result.
func (m *model) settle(t require.TestingT) {
	for round := 0; ; round++ {
		require.Less(t, round, 30, "the group does not come to rest")
		m.tick(t, time.Second)
		records := len(m.log)
		for _, c := range m.clients {
			_ = m.beat(t, c, false, false)
		}
		if len(m.log) == records && round > 2 {
			break
		}
	}
	if len(m.clients) == 0 {
		return
	}
	require.Equal(t, protocol.Stable, m.g.State())
	owned := map[partition]int{}
	least, most := 1<<30, 0
	same := true
	for _, c := range m.clients {
		mem := m.g.members[c.id]
		require.NotNil(t, mem)
		ps := partitionsOf(c.owned)
		require.Equal(t, plain(mem.assigned), append([]partition{}, ps...))
		for _, p := range ps {
			owned[p]++
		}
		least, most = min(least, len(ps)), max(most, len(ps))
		same = same && slices.Equal(c.topics, m.clients[0].topics) && c.regex == m.clients[0].regex
	}
	want := map[partition]int{}
	ch := &change{g: m.g}
	for _, mem := range m.g.members {
		for _, name := range ch.topicsOf(mem) {
			for p := range m.topics[name].Partitions {
				want[partition{m.topics[name].ID, p}] = 1
			}
		}
	}
	require.Equal(t, want, owned, "everything is assigned, once")
	if same {
		require.LessOrEqual(t, most-least, 1, "balanced")
	}
}

func TestNoPartitionIsWithTwoMembersWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(1, 6).Draw(t, "clients"))
		pick := func() *client { return rapid.SampledFrom(m.clients).Draw(t, "client") }
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "what") {
			case 0, 1, 2, 3:
				_ = m.beat(t, pick(), false, false)
			case 4:
				_ = m.beat(t, pick(), true, false)
			case 5:
				_ = m.beat(t, pick(), false, true)
			case 6:
				m.tick(t, time.Duration(rapid.SampledFrom([]int{100, 1000, 5000, 31000, 46000}).Draw(t, "ms"))*time.Millisecond)
			case 7:
				if c := pick(); c.epoch > 0 {
					m.leave(t, c, leaveEpoch)
				}
			case 8:
				if c := pick(); c.epoch > 0 && c.instance != "" {
					m.leave(t, c, leaveStaticEpoch)
				}
			case 9:
				c := pick()
				c.topics, c.fresh = rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"a", "c"}, {}}).Draw(t, "topics"), true
				c.regex = rapid.SampledFrom([]string{"", "a|c", ".*"}).Draw(t, "regex")
			case 10:
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic")
				m.setTopic(name, m.topics[name].Partitions+1)
			case 11:
				m.reload(t)
			case 12:
				m.commit(t, pick(), rapid.Int32Range(-1, 3).Draw(t, "behind"))
			case 13:
				m.step(t, classic.EventReset{Offsets: record.Offsets{{Topic: "a"}: 7}, Expel: true, To: 2})
			}
		}
		m.reload(t)
		m.settle(t)
		m.reload(t)
	})
}

// commit stores an offset in an epoch that is behind the client's. It is rejected unless the
// client has had the partition since.
func (m *model) commit(t require.TestingT, c *client, behind int32) {
	ids := map[string][16]byte{"a": m.topics["a"].ID}
	r := &protocol.CommitRequest{Group: "g", MemberID: c.id, Generation: c.epoch - behind, Offsets: map[record.TopicPartition]record.Committed{{Topic: "a"}: {Offset: 5}}}
	before, mem := maps.Clone(m.g.Offsets()), m.g.members[c.id]
	ans := m.step(t, classic.EventCommit{CommitRequest: r, TopicIDs: ids, To: 3})
	accepted := ans.Err == nil
	if accepted {
		accepted = ans.Value.(map[record.TopicPartition]error)[record.TopicPartition{Topic: "a"}] == nil
	}
	switch {
	case !accepted:
		require.Equal(t, before, m.g.Offsets(), "a commit that is refused stores nothing")
	case mem == nil:
		require.True(t, r.Generation < 0 && len(m.g.members) == 0)
	case r.Generation != mem.epoch:
		require.Less(t, r.Generation, mem.epoch)
		require.Equal(t, mem.id, m.g.owner[partition{ids["a"], 0}], "late, and not its own")
	}
}
