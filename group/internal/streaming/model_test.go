package streaming

import (
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
	id, process string
	rack        string
	epoch       int32   // 0: it has to join
	has         target  // the tasks that it runs
	told        *target // its last assignment; nil: it has that
}

type model struct {
	g        *Group
	cfg      *Config
	settings Settings
	now      time.Time
	topics   map[string]modern.Topic
	version  int64
	topology *offsets.StreamsTopologyValue
	clients  []*client
	log      []offsets.Record
	ids      int
	epoch    int32                  // last observed epoch of the group
	missing  []offsets.StreamsTopic // to be created
	answer   *protocol.StreamsHeartbeatResponse
}

// counting returns the topology of an application. It counts the records of a through a
// repartition topic, and keeps the records of b in a table.
func counting() *offsets.StreamsTopologyValue {
	return &offsets.StreamsTopologyValue{Epoch: 1, Subtopologies: []offsets.StreamsSubtopology{
		{ID: "0", SourceTopics: []string{"a"}, RepartitionSinks: []string{"r"}},
		{ID: "1", RepartitionSources: []offsets.StreamsTopic{{Name: "r"}}, Changelogs: []offsets.StreamsTopic{{Name: "counts", Configs: []offsets.StreamsPair{{Key: "cleanup.policy", Value: "compact"}}}}},
		{ID: "2", SourceTopics: []string{"b"}, Changelogs: []offsets.StreamsTopic{{Name: "table"}}},
	}}
}

// newModel returns a group for clients, two in each process.
func newModel(clients, standbys int) *model {
	m := &model{now: time.UnixMilli(1_000_000), topics: map[string]modern.Topic{}, topology: counting()}
	m.settings = Settings{Session: 45 * time.Second, Heartbeat: 5 * time.Second, Assignment: time.Second, Delay: 3 * time.Second, Standbys: standbys}
	m.cfg = &Config{MaxSize: 6, Settings: func(string) Settings { return m.settings }, Limits: classic.Limits{OffsetMetadataMax: 100}}
	m.g = New(classic.NewCommitted("g"), m.cfg)
	m.setTopic("a", 3)
	m.setTopic("b", 2)
	for i := range clients {
		c := &client{process: fmt.Sprint("p", i/2)}
		m.clients = append(m.clients, c)
		m.rename(c)
	}
	return m
}

func (m *model) rename(c *client) {
	m.ids++
	c.id = fmt.Sprintf("m%03d", m.ids)
	c.abandon()
}

// abandon drops the state of a client that is no longer a member.
func (c *client) abandon() { c.epoch, c.has, c.told = 0, target{}, nil }

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

func (m *model) deleteTopic(name string) {
	m.topics = maps.Clone(m.topics)
	delete(m.topics, name)
	m.version++
}

// create creates the topics that the group lacks.
func (m *model) create() {
	for _, t := range m.missing {
		m.setTopic(t.Name, t.Partitions)
	}
	m.missing = nil
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
	require.LessOrEqual(t, m.g.assignmentEpoch, max(m.g.epoch, initialEpoch))
	require.LessOrEqual(t, m.g.Size(), m.cfg.MaxSize)
	for _, mem := range m.g.members {
		require.LessOrEqual(t, mem.epoch, m.g.assignmentEpoch)
		require.Contains(t, m.g.sessions, mem.id)
		require.Equal(t, mem.state == unrevoked, !mem.revoking.empty())
	}
	m.checkWork(t)
	if len(eff.Replies) == 0 {
		return machine.Reply{}
	}
	return eff.Replies[0]
}

// checkWork checks that no two clients that are members run the same active task. No process may
// have a task twice or in two roles.
func (m *model) checkWork(t require.TestingT) {
	actives, inProcess := map[task]string{}, map[string]string{}
	for _, c := range m.clients {
		if m.g.members[c.id] == nil {
			continue // it was removed, and has not noticed yet
		}
		for r := range c.has {
			for _, x := range c.has[r] {
				if role(r) == active {
					require.Empty(t, actives[x], "%v is active at %s, too", x, c.id)
					actives[x] = c.id
				}
				k := fmt.Sprint(c.process, x)
				require.Empty(t, inProcess[k], "%v is %s's, too", k, c.id)
				inProcess[k] = c.id
			}
		}
	}
}

// durable returns the part of a Group's state that the log has.
func durable(g *Group) map[string]any {
	d := map[string]any{"epoch": g.epoch, "hash": g.hash, "validated": g.validated, "configs": g.configs, "target epoch": g.assignmentEpoch, "ms": g.assignedMs,
		"members": maps.Clone(g.members), "target": maps.Clone(g.target)}
	if g.topology != nil {
		d["topology"] = g.topology.AppendTo(nil)
	}
	return d
}

// beat sends a heartbeat, whose answer may get lost.
func (m *model) beat(t require.TestingT, c *client, lost bool) error {
	r := &protocol.StreamsHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: c.epoch, ClientID: "c", ClientHost: "/h", RackID: c.rack,
		ProcessID: &c.process, RebalanceTimeout: -1, ClientTags: []offsets.StreamsPair{}}
	if c.told == nil { // otherwise it is still taking over its last assignment
		owned := c.has.record()
		r.Owned = &owned
	}
	if c.epoch == joinEpoch {
		r.Topology, r.RebalanceTimeout = m.topology, 10*time.Second
	}
	known := m.g.members[c.id] != nil
	reply := m.step(t, EventHeartbeat{StreamsHeartbeatRequest: r, Topics: modern.NewTopics(m.version, m.topics), To: 1})
	require.EqualValues(t, 1, reply.To)
	if reply.Err != nil {
		m.refused(t, c, reply.Err, known)
		return reply.Err
	}
	if lost {
		return nil
	}
	a := reply.Value.(protocol.StreamsHeartbeatResponse)
	m.answer, m.missing = &a, a.Missing
	require.Equal(t, c.id, a.MemberID)
	c.epoch = a.MemberEpoch
	require.Positive(t, c.epoch, "an epoch that is none")
	if a.Assignment != nil {
		told := targetOf(a.Assignment)
		c.told = &told
	}
	return nil
}

// refused is the reaction of a client to an error.
func (m *model) refused(t require.TestingT, c *client, err error, known bool) {
	mem := m.g.members[c.id]
	switch code := unwrapped(err); code {
	case protocol.ErrGroupMaxSize:
		require.Equal(t, m.cfg.MaxSize, m.g.Size())
	case protocol.ErrUnknownMember, protocol.ErrGroupNotFound:
		require.False(t, known && c.epoch > 0, "a member is one")
		m.rename(c)
	case protocol.ErrFencedMemberEpoch: // it joins again
		require.NotEqual(t, mem.epoch, c.epoch)
		c.abandon()
	case protocol.ErrInvalidRequest: // it has tasks that the application no longer has
		c.abandon()
	default:
		require.NoError(t, err)
	}
}

// unwrapped returns the sentinel of an error.
func unwrapped(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

// stop makes a client stop its revoked tasks; start makes it start the new ones, too.
func (c *client) stop() {
	if c.told == nil {
		return
	}
	for r := range c.has {
		c.has[r] = slices.DeleteFunc(slices.Clone(c.has[r]), func(x task) bool { return !contains(c.told[r], x) })
	}
}

func (c *client) start() {
	if c.told != nil {
		c.has, c.told = *c.told, nil
	}
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

// settle makes all clients send heartbeats until no record is added.
func (m *model) settle(t require.TestingT) {
	for round := 0; ; round++ {
		require.Less(t, round, 40, "the group does not come to rest")
		m.now = m.now.Add(time.Second)
		m.step(t, classic.EventTick{})
		records := len(m.log)
		for _, c := range m.clients {
			_ = m.beat(t, c, false)
			c.stop()
			c.start()
			_ = m.beat(t, c, false)
			if m.answer != nil && slices.ContainsFunc(m.answer.Statuses, func(s protocol.StreamsStatus) bool { return s.Code == protocol.IncorrectlyPartitionedTopics }) {
				for _, name := range []string{"r", "counts", "table"} {
					m.deleteTopic(name)
				}
			}
			m.create()
		}
		if len(m.log) == records && round > 5 {
			break
		}
	}
	m.checkSettled(t)
}

// checkSettled checks that every task has one client, and its copies if there are processes for
// them.
func (m *model) checkSettled(t require.TestingT) {
	var of [numRoles]map[task]int
	processes := map[string]bool{}
	for r := range of {
		of[r] = map[task]int{}
	}
	most := 0
	for _, c := range m.clients {
		if m.g.members[c.id] == nil {
			require.Equal(t, m.cfg.MaxSize, m.g.Size())
			continue
		}
		processes[c.process] = true
		most = max(most, len(c.has[active]))
		for r := range c.has {
			for _, x := range c.has[r] {
				of[r][x]++
			}
		}
	}
	partitions := map[string]int32{"0": m.topics["a"].Partitions, "1": m.topics["r"].Partitions, "2": m.topics["b"].Partitions}
	tasks := 0
	for id, n := range partitions {
		for p := range n {
			tasks++
			require.Equal(t, 1, of[active][task{id, p}], "task %s_%d is active once", id, p)
			copies := 0
			if id != "0" {
				copies = min(m.settings.Standbys, len(processes)-1)
			}
			require.Equal(t, copies, of[standby][task{id, p}], "copies of %s_%d", id, p)
		}
	}
	require.Len(t, of[active], tasks)
	require.LessOrEqual(t, most, (tasks+m.g.Size()-1)/m.g.Size()+1, "nobody has far more than the others")
	require.Equal(t, protocol.Stable, m.g.State())
}

// checkSticky checks that a new epoch without any other change moves no task.
func (m *model) checkSticky(t require.TestingT) {
	before := map[string]target{}
	for _, c := range m.clients {
		before[c.id] = c.has
	}
	epoch := m.g.epoch
	m.clients[0].rack += "x"
	m.settle(t)
	if m.g.members[m.clients[0].id] != nil {
		require.Greater(t, m.g.epoch, epoch)
	}
	for _, c := range m.clients {
		has, was := c.has, before[c.id]
		require.True(t, has.equal(&was), "%s had %v, and has %v", c.id, was, has)
	}
}

// Checklist row S25.
func TestTasksAreSharedOutWhateverHappens(t *testing.T) {
	sample.Rapid(t)
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.IntRange(1, 7).Draw(t, "clients"), rapid.IntRange(0, 2).Draw(t, "standbys"))
		pick := func() *client { return rapid.SampledFrom(m.clients).Draw(t, "client") }
		if rapid.Bool().Draw(t, "settled") {
			m.settle(t)
		}
		for range rapid.IntRange(5, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 13).Draw(t, "what") {
			case 0, 1, 2:
				_ = m.beat(t, pick(), false)
			case 3:
				_ = m.beat(t, pick(), true)
			case 4, 5:
				pick().stop()
			case 6, 7:
				c := pick()
				c.stop()
				_ = m.beat(t, c, false)
				c.start()
			case 8:
				m.create()
			case 9:
				m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{100, 1000, 5000, 11000, 46000}).Draw(t, "ms")) * time.Millisecond)
				m.step(t, classic.EventTick{})
			case 10:
				if c := pick(); c.epoch > 0 {
					m.step(t, EventHeartbeat{StreamsHeartbeatRequest: &protocol.StreamsHeartbeatRequest{Group: "g", MemberID: c.id, MemberEpoch: leaveEpoch}, To: 1})
					require.NotContains(t, m.g.members, c.id)
					m.rename(c)
				}
			case 11:
				name := rapid.SampledFrom([]string{"a", "b", "r"}).Draw(t, "topic")
				m.setTopic(name, m.topics[name].Partitions+1)
			case 12:
				m.settings.Standbys = rapid.IntRange(0, 2).Draw(t, "standbys")
			case 13:
				m.reload(t)
			}
		}
		m.reload(t)
		m.settle(t)
		m.reload(t)
		m.checkSticky(t)
	})
}
