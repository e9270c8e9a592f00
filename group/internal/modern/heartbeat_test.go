package modern

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/compacted"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// ask sends a heartbeat and returns the answer.
func (m *model) ask(t *testing.T, r protocol.ConsumerHeartbeatRequest) (protocol.ConsumerHeartbeatResponse, error) {
	r.Group, r.ClientHost = "g", "/h"
	ans := m.heartbeat(t, &r)
	resp, _ := ans.Value.(protocol.ConsumerHeartbeatResponse)
	return resp, ans.Err
}

func (m *model) join(t *testing.T, id string, topics ...string) protocol.ConsumerHeartbeatResponse {
	resp, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: id, RebalanceTimeout: time.Minute, SubscribedTopics: topics, Owned: []offsets.TopicIDPartitions{}})
	require.NoError(t, err)
	return resp
}

func TestMemberWhoseAnswerWasLostGoesOn(t *testing.T) {
	m := newModel(0)
	first := m.join(t, "m1", "a")
	require.Len(t, first.Assignment[0].Partitions, 4)
	m.setTopic("a", 5)
	m.now = m.now.Add(time.Second)
	lost, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: -1, Owned: first.Assignment})
	require.NoError(t, err)
	require.Greater(t, lost.MemberEpoch, first.MemberEpoch)
	require.Len(t, lost.Assignment[0].Partitions, 5)

	again, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: time.Minute, SubscribedTopics: []string{"a"}, Owned: first.Assignment})
	require.NoError(t, err)
	require.Equal(t, lost.MemberEpoch, again.MemberEpoch)
	require.Equal(t, lost.Assignment, again.Assignment, "a full request is told all")

	more := []offsets.TopicIDPartitions{{TopicID: m.topics["b"].ID, Partitions: []int32{0}}}
	_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: -1, Owned: more})
	require.ErrorIs(t, err, protocol.ErrFencedMemberEpoch, "it has what it was not given")
	_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: -1})
	require.ErrorIs(t, err, protocol.ErrFencedMemberEpoch, "it does not say what it has")
}

func TestMemberThatSaysNothingHasGivenUpNothing(t *testing.T) {
	m := newModel(0)
	one := m.join(t, "m1", "a")
	m.now = m.now.Add(time.Second)
	two := m.join(t, "m2", "a")
	require.Empty(t, two.Assignment, "all are m1's")
	for range 3 {
		_, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: one.MemberEpoch, RebalanceTimeout: -1})
		require.NoError(t, err)
		two, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m2", MemberEpoch: two.MemberEpoch, RebalanceTimeout: -1})
		require.NoError(t, err)
		require.Nil(t, two.Assignment)
	}
	require.Equal(t, protocol.Reconciling, m.g.State())
}

func TestRegularExpressionsSubscribeToWhatTheyMatch(t *testing.T) {
	m := newModel(0)
	m.setTopic("ab", 1)
	expr := "a|c"
	resp, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", RebalanceTimeout: time.Minute, SubscribedRegex: &expr, Owned: []offsets.TopicIDPartitions{}})
	require.NoError(t, err)
	require.Equal(t, []offsets.TopicIDPartitions{{TopicID: m.topics["a"].ID, Partitions: []int32{0, 1, 2, 3}}}, resp.Assignment)
	again, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: resp.MemberEpoch, RebalanceTimeout: time.Minute, SubscribedRegex: &expr, Owned: resp.Assignment})
	require.NoError(t, err)
	require.Equal(t, resp.Assignment, again.Assignment, "a full request is told all")
	require.Contains(t, m.g.patterns, expr)
	m.step(t, classic.EventLeave{Members: []protocol.LeaveMember{{MemberID: "m1"}}, To: 2})
	require.Empty(t, m.g.patterns)
	m.step(t, classic.EventDelete{To: 3})
	require.True(t, m.g.Forgotten())
	m.reload(t)
	require.True(t, m.g.Forgotten(), "nothing of it is left in the log")
}

// A group requests the matches of an expression when it is new or topics have changed, and at no
// other time.
func TestExpressionsAreMatchedOutsideAndOnce(t *testing.T) {
	m := newModel(0)
	expr := "a|c"
	r := protocol.ConsumerHeartbeatRequest{Group: "g", ClientHost: "/h", MemberID: "m1", RebalanceTimeout: time.Minute, SubscribedRegex: &expr, Owned: []offsets.TopicIDPartitions{}}
	beat := func(matches *Matches) error {
		ans := m.step(t, EventHeartbeat{ConsumerHeartbeatRequest: &r, Topics: NewTopics(m.version, m.topics), Matches: matches, To: 1})
		if ans.Err == nil {
			resp := ans.Value.(protocol.ConsumerHeartbeatResponse)
			r.MemberEpoch, r.Owned = resp.MemberEpoch, resp.Assignment
		}
		return ans.Err
	}
	wants := func(err error) *UnmatchedError {
		u := (*UnmatchedError)(nil)
		require.ErrorAs(t, err, &u)
		require.Equal(t, []string{expr}, u.Exprs)
		require.Equal(t, m.version, u.Topics.Version)
		return u
	}
	u := wants(beat(nil))
	require.Empty(t, m.g.members, "it changes nothing before")
	wants(beat(&Matches{Version: m.version, Topics: map[string][]string{"b": {"b"}}}))
	require.NoError(t, beat(match(t, u)))
	require.Equal(t, []string{"a"}, m.g.patterns[expr].topics)
	require.NoError(t, beat(nil), "neither is new")

	m.setTopic("c", 1)
	old := match(t, wants(beat(nil)))
	m.setTopic("d", 1)
	require.NoError(t, beat(old), "topics that change all the time do not keep a member waiting")
	require.Equal(t, []string{"a", "c"}, m.g.patterns[expr].topics)
	require.NoError(t, beat(match(t, wants(beat(nil)))), "and those that came meanwhile are looked at")
	require.NoError(t, beat(nil))

	m.setTopic("e", 1)
	wants(beat(nil))
	wants(beat(old))
	require.NoError(t, beat(&Matches{Version: m.version, Topics: map[string][]string{expr: nil}}))
	require.Equal(t, []string{"a", "c"}, m.g.patterns[expr].topics, "what cannot be read matches what it did")
}

// A member joins by an expression without matches. The matches arrive later and have only a topic
// to which another member subscribes by name.
func TestMemberWhoseExpressionIsMatchedLaterGetsItsTopics(t *testing.T) {
	m := newModel(0)
	m.setTopic("b", 2)
	none := &Matches{Version: m.version, Partial: true}
	beat := func(r *protocol.ConsumerHeartbeatRequest, matches *Matches) protocol.ConsumerHeartbeatResponse {
		m.now = m.now.Add(time.Second) // the assignment interval
		ans := m.step(t, EventHeartbeat{ConsumerHeartbeatRequest: r, Topics: NewTopics(m.version, m.topics), Matches: matches, To: 1})
		require.NoError(t, ans.Err)
		resp := ans.Value.(protocol.ConsumerHeartbeatResponse)
		r.MemberEpoch, r.SubscribedTopics, r.SubscribedRegex, r.Owned = resp.MemberEpoch, nil, nil, resp.Assignment
		return resp
	}
	join := func(id string) *protocol.ConsumerHeartbeatRequest {
		return &protocol.ConsumerHeartbeatRequest{Group: "g", ClientHost: "/h", MemberID: id, RebalanceTimeout: time.Minute, Owned: []offsets.TopicIDPartitions{}}
	}
	first, second := join("m1"), join("m2")
	first.SubscribedTopics = []string{"b"}
	beat(first, nil)
	expr := "b"
	second.SubscribedRegex = &expr
	resp := beat(second, none)
	require.Empty(t, resp.Assignment)
	require.Equal(t, unreleasedRetry, resp.RetryAfter)
	require.Nil(t, m.g.patterns[expr])
	require.Empty(t, beat(second, none).Assignment)
	beat(first, nil)

	old := m.version
	m.setTopic("bb", 1)
	beat(first, nil)
	beat(second, &Matches{Version: m.version, Topics: map[string][]string{expr: {"b"}}})
	beat(first, nil) // gives up a partition
	beat(first, nil)
	resp = beat(second, nil)
	require.Equal(t, []offsets.TopicIDPartitions{{TopicID: m.topics["b"].ID, Partitions: []int32{1}}}, resp.Assignment)
	require.Zero(t, resp.RetryAfter)

	m.setTopic("bbb", 1)
	require.Equal(t, unreleasedRetry, beat(second, &Matches{Version: old, Partial: true}).RetryAfter)
	require.Equal(t, []string{"b"}, m.g.patterns[expr].topics, "it keeps its topics until it is matched again")
	ans := m.step(t, EventHeartbeat{ConsumerHeartbeatRequest: second, Topics: NewTopics(m.version, m.topics), To: 1})
	require.ErrorAs(t, ans.Err, new(*UnmatchedError))
}

func TestMemberThatIsLeftAloneWaitsForNobody(t *testing.T) {
	// the member id with which a static member returns; "": not static
	for _, back := range []string{"", "m1", "m3"} {
		m := newModel(0)
		instance := ""
		if back != "" {
			instance = "i"
		}
		m.join(t, "m2", "a")
		r := protocol.ConsumerHeartbeatRequest{MemberID: "m1", InstanceID: instance, RebalanceTimeout: time.Minute, SubscribedTopics: []string{"a"}, Owned: []offsets.TopicIDPartitions{}}
		m.now = m.now.Add(time.Second)
		_, err := m.ask(t, r)
		require.NoError(t, err)
		for range 3 { // m1 gets the last partitions, when m2 has given them up
			m.now = m.now.Add(time.Second)
			two := m.g.members["m2"]
			_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m2", MemberEpoch: two.epoch, RebalanceTimeout: -1, Owned: byTopic(plain(two.assigned))})
			require.NoError(t, err)
			_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", InstanceID: instance, MemberEpoch: m.g.members["m1"].epoch, RebalanceTimeout: -1})
			require.NoError(t, err)
		}
		require.Equal(t, []partition{{m.topics["a"].ID, 2}, {m.topics["a"].ID, 3}}, plain(m.g.members["m1"].assigned))
		if back != "" {
			_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", InstanceID: instance, MemberEpoch: leaveStaticEpoch, RebalanceTimeout: -1})
			require.NoError(t, err)
			r.MemberID = back
		} else {
			r.MemberEpoch = m.g.members["m1"].epoch
		}
		_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m2", MemberEpoch: leaveEpoch, RebalanceTimeout: -1})
		require.NoError(t, err)
		m.now = m.now.Add(time.Second)
		resp, err := m.ask(t, r)
		require.NoError(t, err)
		require.Equal(t, []offsets.TopicIDPartitions{{TopicID: m.topics["a"].ID, Partitions: []int32{0, 1, 2, 3}}}, resp.Assignment, "each once")
		require.Equal(t, protocol.Stable, m.g.State(), "back as %q", back)
	}
}

func TestMemberKeepsWhatItHasInACompactedLog(t *testing.T) {
	m := newModel(0)
	one := m.join(t, "m1", "a")
	for _, r := range []protocol.ConsumerHeartbeatRequest{
		{RebalanceTimeout: 2 * time.Minute}, {RebalanceTimeout: -1, SubscribedTopics: []string{"a", "b"}}, {RebalanceTimeout: -1, RackID: "r"},
	} {
		r.MemberID, r.MemberEpoch = "m1", one.MemberEpoch // within the assignment interval: it stays in its epoch
		_, err := m.ask(t, r)
		require.NoError(t, err)
		re := New(classic.NewCommitted("g"), m.cfg)
		log := compacted.Entries(m.log)
		compacted.Load(re, compacted.Log(log, len(log), true))
		require.Equal(t, one.MemberEpoch, re.members["m1"].epoch)
		require.Equal(t, one.Assignment, byTopic(plain(re.members["m1"].assigned)))
		require.Len(t, re.owner, 4, "nobody else is given them")
	}
}

func TestMemberIsToldAtOnceToGiveUpWhatItDoesNotSubscribeTo(t *testing.T) {
	m := newModel(0)
	a := offsets.TopicIDPartitions{TopicID: m.topics["a"].ID, Partitions: []int32{0, 1, 2, 3}}
	b := offsets.TopicIDPartitions{TopicID: m.topics["b"].ID, Partitions: []int32{0, 1, 2}}
	epoch := m.join(t, "m1", "a", "b").MemberEpoch
	ask := func(topics []string, owned ...offsets.TopicIDPartitions) []offsets.TopicIDPartitions {
		resp, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: epoch, RebalanceTimeout: -1, SubscribedTopics: topics, Owned: owned})
		require.NoError(t, err)
		require.Equal(t, epoch, resp.MemberEpoch, "within the assignment interval there is no other target")
		return resp.Assignment
	}
	require.Equal(t, []offsets.TopicIDPartitions{a}, ask([]string{"a"}))
	require.Len(t, m.g.owner, 7, "it has not given them up yet")
	require.Empty(t, ask([]string{}), "nor these")
	require.NotContains(t, m.g.revokes, "m2")
	require.Contains(t, m.g.revokes, "m1", "it is put out if it never does")
	require.Nil(t, ask(nil, b))
	require.Len(t, m.g.owner, 7)
	require.Nil(t, ask(nil))
	require.Len(t, m.g.owner, 7, "it has not said what it has")
	ask([]string{"b"}, offsets.TopicIDPartitions{TopicID: m.topics["a"].ID})
	require.Equal(t, plain(m.g.members["m1"].assigned), partitionsOf([]offsets.TopicIDPartitions{b}), "what it has given up, and subscribes to again, is its own")
	require.Len(t, m.g.owner, 3)
	require.Equal(t, stable, m.g.members["m1"].state)

	m.now = m.now.Add(time.Second)
	two := m.join(t, "m2", "a")
	require.Equal(t, []offsets.TopicIDPartitions{a}, two.Assignment, "nobody waits for it")
}

// Checklist row N25. The coordinator has stored the change of the request, and the answer was
// lost. Another coordinator gets the same request.
func TestRepeatedHeartbeatIsAnsweredAsTheFirst(t *testing.T) {
	m := newModel(0)
	one := m.join(t, "m1", "a")
	m.now = m.now.Add(time.Second)
	m.join(t, "m2", "a")
	repeat := func(epoch int32) protocol.ConsumerHeartbeatResponse {
		r := &protocol.ConsumerHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: epoch, RebalanceTimeout: -1, ClientHost: "/h"}
		reply := m.step(t, EventHeartbeat{ConsumerHeartbeatRequest: r, Topics: NewTopics(m.version, m.topics), Repeated: true, To: 1})
		require.NoError(t, reply.Err)
		return reply.Value.(protocol.ConsumerHeartbeatResponse)
	}
	first, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: one.MemberEpoch, RebalanceTimeout: -1})
	require.NoError(t, err)
	require.Len(t, first.Assignment[0].Partitions, 2, "it is to give up half")
	require.Equal(t, first.Assignment, repeat(one.MemberEpoch).Assignment)

	_, err = m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: first.MemberEpoch, RebalanceTimeout: -1, Owned: first.Assignment})
	require.NoError(t, err)
	m.setTopic("a", 5)
	m.now = m.now.Add(time.Second)
	epoch := m.g.members["m1"].epoch
	next, err := m.ask(t, protocol.ConsumerHeartbeatRequest{MemberID: "m1", MemberEpoch: epoch, RebalanceTimeout: -1})
	require.NoError(t, err)
	require.Greater(t, next.MemberEpoch, epoch)
	require.Equal(t, next.MemberEpoch, repeat(epoch).MemberEpoch, "the request itself has ended that epoch")
}
