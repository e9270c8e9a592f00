package interop

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAnswersToTheNewerProtocolAreKafkas lets members of KIP-848 groups join, pass partitions to
// each other, leave, and send invalid requests.
func TestAnswersToTheNewerProtocolAreKafkas(t *testing.T) {
	t.Parallel()
	kafkas := startKafka(t)
	ours, _ := startStrata(t)
	run := func(k target) *transcript {
		s := &consumerScript{transcript: newTranscript(t, k), ids: map[string][16]byte{}}
		s.prepare()
		s.refused()
		s.passOn()
		s.static()
		s.fetched()
		s.becomes()
		s.configured()
		s.migrates()
		return s.transcript
	}
	sameAnswers(t, run(kafkas), run(ours))
}

type consumerScript struct {
	*transcript
	ids map[string][16]byte
}

// prepare creates the topics and waits for the coordinator of all groups.
func (s *consumerScript) prepare() {
	for name, n := range map[string]int32{"two": 2, "four": 4} {
		createNamed(s.t, s.k, name, n)
		md := kmsg.NewPtrMetadataRequest()
		md.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		s.until(12, md, func(r kmsg.Response) bool {
			got := r.(*kmsg.MetadataResponse).Topics[0]
			s.ids[name] = got.TopicID
			return got.ErrorCode == 0
		})
	}
	awaitCoordinators(s.t, s.k)
}

// A beat is a heartbeat; owned names partitions of topic.
type beat struct {
	member   string
	epoch    int32
	instance string
	topic    string
	owned    []int32
	edit     func(r *kmsg.ConsumerGroupHeartbeatRequest)
}

func (s *consumerScript) beat(name, group string, b beat) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = group, b.member, b.epoch, -1
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if b.instance != "" {
		r.InstanceID = &b.instance
	}
	if b.epoch == 0 {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 60_000, []string{b.topic}
	}
	if len(b.owned) > 0 {
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.ids[b.topic], Partitions: b.owned})
	}
	if b.edit != nil {
		b.edit(r)
	}
	resp, _ := s.ask("beat: "+name, 1, r).(*kmsg.ConsumerGroupHeartbeatResponse)
	return resp
}

func (s *consumerScript) describe(name string, groups ...string) {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = groups
	s.ask("describe: "+name, 1, r)
	s.list(name)
	old := kmsg.NewPtrDescribeGroupsRequest()
	old.Groups = groups
	s.ask("old describe: "+name, 6, old)
}

func (s *consumerScript) list(name string) {
	r := kmsg.NewPtrListGroupsRequest()
	r.TypesFilter = []string{"consumer"}
	s.ask("list: "+name, 5, r)
}

func (s *consumerScript) refused() {
	empty, blank, bad, nobody := "", " ", "a(", "nobody"
	edits := map[string]func(r *kmsg.ConsumerGroupHeartbeatRequest){
		"no group":             func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" },
		"no member":            func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" },
		"no instance":          func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &empty },
		"blank group":          func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = blank },
		"blank member":         func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = blank },
		"blank instance":       func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &blank },
		"blank rack":           func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &blank },
		"no rack":              func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &empty },
		"epoch -3":             func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 },
		"epoch -2, not static": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 },
		"no rebalance timeout": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 },
		"no subscription":      func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
		"says nothing":         func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
		"unknown assignor":     func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &nobody },
		"empty assignor":       func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &empty },
		"bad expression":       func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &bad },
		"group is unknown":     func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 1 },
		"leaves no group":      func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 },
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		s.beat(name, "refused", beat{member: "m1", topic: "two", edit: edits[name]})
	}
	s.describe("nothing", "refused", "")
	s.beat("empty subscription", "empty", beat{member: "m1", edit: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{} }})
	s.beat("unknown topic", "unknown", beat{member: "m1", topic: "nope"})
	s.describe("nothing to read", "empty", "unknown")
}

func (s *consumerScript) passOn() {
	s.beat("first", "g", beat{member: "m1", topic: "two"})
	s.describe("one", "g")
	s.beat("first again", "g", beat{member: "m1", topic: "two"})
	s.beat("second, too soon", "g", beat{member: "m2", topic: "two"})
	s.describe("assigning", "g")
	time.Sleep(1500 * time.Millisecond)
	s.beat("second, in time", "g", beat{member: "m2", epoch: 2, topic: "two"})
	s.describe("reconciling", "g")
	resp := s.beat("first gives up", "g", beat{member: "m1", epoch: 2, topic: "two", owned: []int32{0, 1}})
	kept := []int32{0}
	if resp != nil && resp.Assignment != nil && len(resp.Assignment.Topics) == 1 {
		kept = resp.Assignment.Topics[0].Partitions
	}
	s.commits("unrevoked", "g", "m1", 2)
	s.beat("first has not yet", "g", beat{member: "m1", epoch: 2, topic: "two", owned: []int32{0, 1}})
	s.beat("first has", "g", beat{member: "m1", epoch: 2, topic: "two", owned: kept})
	s.beat("second gets", "g", beat{member: "m2", epoch: 3, topic: "two"})
	s.describe("stable", "g")
	s.beat("first, answer lost", "g", beat{member: "m1", epoch: 2, topic: "two", owned: kept})
	s.beat("first, epoch to come", "g", beat{member: "m1", epoch: 4, topic: "two", owned: kept})
	s.beat("first, epoch over", "g", beat{member: "m1", epoch: 1, topic: "two", owned: kept})
	s.beat("stranger", "g", beat{member: "m3", epoch: 3, topic: "two"})
	for epoch := int32(-1); epoch < 5; epoch++ {
		s.commits(fmt.Sprint("epoch ", epoch), "g", "m1", epoch)
	}
	s.commits("of a stranger", "g", "m3", 3)
	s.commits("of nobody", "g", "", -1)
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g"}
	s.ask("delete: with members", 2, del)
	s.beat("first leaves", "g", beat{member: "m1", epoch: -1})
	s.beat("first leaves again", "g", beat{member: "m1", epoch: -1})
	s.describe("one left", "g")
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: "m2"}, {MemberID: "m4"}}
	s.ask("old leave", 5, leave)
	s.describe("nobody left", "g")
}

// commits sends OffsetCommit in two versions.
func (s *consumerScript) commits(name, group, member string, epoch int32) {
	for _, v := range []int16{8, 9} {
		r, rt := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitRequestTopic()
		r.Group, r.MemberID, r.Generation, rt.Topic = group, member, epoch, "two"
		rt.Partitions = []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 5, LeaderEpoch: -1}}
		r.Topics = append(r.Topics, rt)
		s.ask("commit: "+name, v, r)
	}
}

func (s *consumerScript) static() {
	s.beat("static", "s", beat{member: "m1", instance: "i", topic: "two"})
	s.beat("static, taken", "s", beat{member: "m2", instance: "i", topic: "two"})
	s.beat("static, unknown instance", "s", beat{member: "m1", epoch: 2, instance: "j", topic: "two"})
	s.beat("static, not its own", "s", beat{member: "m2", epoch: 2, instance: "i", topic: "two"})
	s.beat("static goes away", "s", beat{member: "m1", epoch: -2, instance: "i"})
	s.describe("away", "s")
	s.beat("static, away", "s", beat{member: "m1", epoch: 2, instance: "i", topic: "two", owned: []int32{0, 1}})
	s.beat("static comes back", "s", beat{member: "m2", instance: "i", topic: "two"})
	s.beat("static, replaced", "s", beat{member: "m1", epoch: 2, instance: "i", topic: "two"})
	s.describe("back", "s")
	s.beat("static leaves", "s", beat{member: "m2", epoch: -1, instance: "i"})
	s.describe("left", "s")
}

func (s *consumerScript) fetched() {
	s.beat("reader", "f", beat{member: "m1", topic: "two"})
	s.commits("reader", "f", "m1", 2)
	for _, c := range []struct {
		member string
		epoch  int32
	}{{"m1", 2}, {"m1", 1}, {"m1", 3}, {"m2", 2}, {"", -1}} {
		r, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch, g.Topics = "f", c.epoch, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "two", Partitions: []int32{0, 1}}}
		if c.member != "" {
			g.MemberID = &c.member
		}
		r.Groups = append(r.Groups, g)
		s.ask(fmt.Sprintf("fetch: %q %d", c.member, c.epoch), 9, r)
	}
	del, t := kmsg.NewPtrOffsetDeleteRequest(), kmsg.NewOffsetDeleteRequestTopic()
	t.Topic, t.Partitions = "two", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
	del.Group, del.Topics = "f", append(del.Topics, t)
	s.ask("delete: subscribed", 0, del)
}

// awaitClassic waits until a group no longer uses the newer protocol. Kafka answers a join before
// it has written the records that convert the group, and describes the written state.
func (s *consumerScript) awaitClassic(group string) {
	require.Eventually(s.t, func() bool {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Version, r.Groups = 1, []string{group}
		resp, err := s.exchange(r)
		return err == nil && resp.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode != 0
	}, 10*time.Second, 10*time.Millisecond)
}

// becomes converts groups without members to the other protocol.
func (s *consumerScript) becomes() {
	s.beat("reader leaves", "f", beat{member: "m1", epoch: -1})
	s.commits("nobody, in an empty group", "f", "", -1)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "f", "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	s.ask("becomes classic", 9, join)
	s.awaitClassic("f")
	s.describe("classic", "f")
	s.beat("becomes modern again", "f", beat{member: "m3", topic: "two"})
	s.describe("modern", "f")
	s.beat("leaves again", "f", beat{member: "m3", epoch: -1})
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"f"}
	s.ask("delete: without members", 2, del)
	s.describe("deleted", "f")
}

// configured sets, describes and lists configurations of groups. The bounds are the target's own.
func (s *consumerScript) configured() {
	const heartbeat, session = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
	alter := func(name, group string, kvs ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
		r, rr := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.Configs = kmsg.ConfigResourceTypeGroupConfig, group, kvs
		r.Resources = append(r.Resources, rr)
		s.ask("alter: "+name, 1, r)
	}
	kv := func(key string, op kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
		return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: op, Value: &value}
	}
	alter("set", "c", kv(heartbeat, 0, "6000"), kv(session, 0, "50000"))
	changes := map[string]kmsg.IncrementalAlterConfigsRequestResourceConfig{
		"empty": kv(heartbeat, 0, ""), "zero": kv(heartbeat, 0, "0"), "above": kv(heartbeat, 0, "15001"), "large": kv(session, 0, "99999999999"),
		"append": kv(heartbeat, 2, "1"), "append unknown": kv("no.such", 2, "1"), "unknown": kv("no.such", 0, "1"), "delete unknown": kv("no.such", 1, ""),
		"delete unset": kv("consumer.assignment.interval.ms", 1, ""), "operation": kv(heartbeat, 7, "1"), "session above": kv(session, 0, "60001"),
		"session below heartbeat": kv(session, 0, "5999"), "assignment above": kv("consumer.assignment.interval.ms", 0, "15001"),
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		alter(name, "c", changes[name])
	}
	alter("no name", "", kv(heartbeat, 0, "6000"))
	for _, group := range []string{"c", "unset", ""} {
		r, rr := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeGroupConfig, group, []string{heartbeat, session, "no.such"}
		r.Resources, r.IncludeSynonyms = append(r.Resources, rr), true
		s.ask("describe: configuration of "+group, 4, r)
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
	await := func(groups int) { // Kafka's broker applies the controller's records a moment later
		require.Eventually(s.t, func() bool {
			list.Version = 1
			resp, err := s.exchange(list)
			return err == nil && len(resp.(*kmsg.ListConfigResourcesResponse).ConfigResources) == groups
		}, 10*time.Second, 10*time.Millisecond)
	}
	await(1)
	s.ask("list: configured groups", 1, list)
	s.beat("configured", "c", beat{member: "m1", topic: "two"})
	alter("unset", "c", kv(heartbeat, 1, ""), kv(session, 1, ""))
	await(0)
	s.ask("list: no configured groups", 1, list)
	s.beat("not configured any more", "c", beat{member: "m1", epoch: 2, topic: "two", owned: []int32{0, 1}})
}

// classicMember is a member of the classic protocol. The target chooses its ids.
type classicMember struct {
	s          *consumerScript
	group, id  string
	instance   *string
	generation int32
}

// subscription returns a subscription of version 1 to the topic two, with the owned partitions.
func subscription(owned ...int32) []byte {
	b := []byte{0, 1, 0, 0, 0, 1, 0, 3, 't', 'w', 'o', 255, 255, 255, 255}
	if len(owned) == 0 {
		return append(b, 0, 0, 0, 0)
	}
	return append(append(b, 0, 0, 0, 1), partitionsOfTwo(owned)...)
}

func partitionsOfTwo(partitions []int32) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0, 3, 't', 'w', 'o'}, uint32(len(partitions)))
	for _, p := range partitions {
		b = binary.BigEndian.AppendUint32(b, uint32(p))
	}
	return b
}

func (m *classicMember) join(name string, version int16, owned ...int32) {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = m.group, m.id, m.instance, "consumer", 10_000, 10_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription(owned...)}}
	if resp, ok := m.s.ask("join: "+name, version, r).(*kmsg.JoinGroupResponse); ok {
		m.generation = resp.Generation
		if resp.MemberID != "" {
			m.id = resp.MemberID
		}
	}
}

// sync sends SyncGroup. The assignment gives both partitions to the member if it leads.
func (m *classicMember) sync(name string, edits ...func(r *kmsg.SyncGroupRequest)) {
	r := kmsg.NewPtrSyncGroupRequest()
	kind, chosen := "consumer", "range"
	r.Group, r.MemberID, r.InstanceID, r.Generation, r.ProtocolType, r.Protocol = m.group, m.id, m.instance, m.generation, &kind, &chosen
	share := append(append([]byte{0, 1, 0, 0, 0, 1}, partitionsOfTwo([]int32{0, 1})...), 255, 255, 255, 255)
	r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: share}}
	for _, edit := range edits {
		edit(r)
	}
	m.s.ask("sync: "+name, 5, r)
}

func (m *classicMember) heartbeat(name string, generation int32) {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.InstanceID, r.Generation = m.group, m.id, m.instance, generation
	m.s.ask("heartbeat: "+name, 4, r)
}

// migrates converts groups to another protocol while they have members.
func (s *consumerScript) migrates() {
	old := &classicMember{s: s, group: "u"}
	old.join("first, classic", 9)
	old.join("first, classic, with its id", 9)
	old.sync("first, classic")
	s.beat("upgrades", "u", beat{member: "m1", topic: "two"})
	s.describe("upgraded", "u")
	old.heartbeat("upgraded", old.generation)
	old.sync("upgraded, not joined again")
	old.heartbeat("another generation", old.generation+7)
	old.join("again", 9)
	wrong := "roundrobin"
	old.sync("another protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = &wrong })
	old.sync("another kind", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = &wrong })
	old.sync("another generation", func(r *kmsg.SyncGroupRequest) { r.Generation += 7 })
	old.sync("again")
	old.heartbeat("again", old.generation)
	s.beat("gets what is free", "u", beat{member: "m1", epoch: old.generation, topic: "two"})
	s.describe("mixed", "u")
	for epoch := int32(-1); epoch < 5; epoch++ {
		s.commits(fmt.Sprint("classic, epoch ", epoch), "u", old.id, epoch)
	}
	(&classicMember{s: s, group: "u", id: "m1"}).heartbeat("of the newer protocol", old.generation)
	(&classicMember{s: s, group: "u", id: "m1", generation: old.generation}).sync("of the newer protocol")
	other := &classicMember{s: s, group: "u"}
	other.join("second", 9)
	edits := map[string]func(r *kmsg.JoinGroupRequest){
		"no consumer":      func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" },
		"another protocol": func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "roundrobin" },
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = "u", "consumer", 10_000, 10_000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription()}}
		edits[name](r)
		s.ask("join: "+name, 9, r)
	}
	s.beat("last leaves", "u", beat{member: "m1", epoch: -1})
	s.awaitClassic("u")
	// Not describe: Kafka's answer still has the assignment from before the downgrade.
	s.list("downgraded")
	old.heartbeat("downgraded", old.generation)
	old.join("downgraded", 9)
	old.sync("downgraded")
	s.describe("classic again", "u")
	s.commits("classic again", "u", old.id, old.generation)

	instance := "i"
	static := &classicMember{s: s, group: "v", instance: &instance}
	static.join("static", 9)
	static.sync("static")
	s.beat("static, upgrades", "v", beat{member: "m1", instance: instance, topic: "two"})
	s.describe("static, upgraded", "v")
	static.heartbeat("static, replaced", static.generation)
	back := &classicMember{s: s, group: "v", instance: &instance}
	back.join("static, back", 9)
	s.awaitClassic("v")
	s.describe("static, downgraded", "v")
	back.sync("static, back")
	back.heartbeat("static, back", back.generation)
}
