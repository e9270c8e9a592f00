package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/topic"
)

// countingTopology reads topic in and counts through a repartition topic.
func countingTopology() *kmsg.StreamsGroupHeartbeatRequestTopology {
	return &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		{SubtopologyID: "0", SourceTopics: []string{"in"}, RepartitionSinkTopics: []string{"app-words"}},
		{SubtopologyID: "1", RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "app-words"}},
			StateChangelogTopics: []kmsg.TopicInfo{{Topic: "app-counts", ReplicationFactor: 1, Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}}},
	}}
}

func streamsBeat(member string, epoch int32, edit func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "app", member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.Topology, req.ProcessID = 60_000, countingTopology(), kmsg.StringPtr("p-"+member)
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}
	if edit != nil {
		edit(req)
	}
	return req
}

// serveStreams serves a cluster whose streams groups do not wait for more members.
func serveStreams(t *testing.T) string {
	cluster, err := strata.Open(strata.Config{Group: group.Config{Streams: group.StreamsConfig{InitialRebalanceDelay: group.Unlimited, AssignmentInterval: group.Unlimited}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.CreateTopic(t.Context(), "in", topic.Config{Partitions: 2}))
	_, addr := serveCluster(t, cluster, Config{})
	findStreams(t, addr)
	return addr
}

func findStreams(t *testing.T, addr string) {
	for _, found := range ask[*kmsg.FindCoordinatorResponse](t, addr, 4, &kmsg.FindCoordinatorRequest{CoordinatorKeys: []string{"app"}}).Coordinators {
		require.Zero(t, found.ErrorCode)
	}
}

// Checklist row S29.
func TestStreamsGroupsWorkOverTheWire(t *testing.T) {
	addr := serveStreams(t)
	beat := func(member string, epoch int32, edit func(*kmsg.StreamsGroupHeartbeatRequest)) *kmsg.StreamsGroupHeartbeatResponse {
		return ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat(member, epoch, edit))
	}
	describe := func(id string) kmsg.StreamsGroupDescribeResponseGroup {
		return ask[*kmsg.StreamsGroupDescribeResponse](t, addr, 0, &kmsg.StreamsGroupDescribeRequest{Groups: []string{id}}).Groups[0]
	}
	list := func(states, types []string) []kmsg.ListGroupsResponseGroup {
		return ask[*kmsg.ListGroupsResponse](t, addr, 5, &kmsg.ListGroupsRequest{StatesFilter: states, TypesFilter: types}).Groups
	}
	one := beat("m1", 0, nil)
	require.Zero(t, one.ErrorCode)
	require.Equal(t, []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: 3, StatusDetail: "Internal topics are missing: app-counts, app-words"}}, plainStatus(one))
	require.Equal(t, "NotReady", describe("app").State)
	require.Len(t, list([]string{"not_ready"}, []string{"Streams"}), 1)
	require.Empty(t, list([]string{"NotReady"}, nil), "as in Kafka, where it goes by another name")
	for _, c := range askConfigs(t, addr, resourceTopic, "app-counts").Configs {
		if c.Name == "cleanup.policy" {
			require.Equal(t, "compact", *c.Value)
		}
	}

	one = beat("m1", one.MemberEpoch, nil)
	require.Equal(t, []kmsg.TaskIDs{{SubtopologyID: "0", Partitions: []int32{0, 1}}, {SubtopologyID: "1", Partitions: []int32{0, 1}}}, plainTasks(one.ActiveTasks))
	require.Empty(t, one.Status)
	require.EqualValues(t, 5000, one.HeartbeatIntervalMillis)
	two := beat("m2", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "h", Port: 65535}
		r.ClientTags, r.RackID = []kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "zone", Value: "a"}}, kmsg.StringPtr("r")
	})
	require.Empty(t, two.ActiveTasks, "the other one has to give them up")
	require.NotNil(t, two.ActiveTasks)
	less := beat("m1", one.MemberEpoch, nil)
	require.Equal(t, 2, len(less.ActiveTasks[0].Partitions)+len(less.ActiveTasks[len(less.ActiveTasks)-1].Partitions))
	require.Zero(t, beat("m1", less.MemberEpoch, func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = less.ActiveTasks, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	}).ErrorCode)
	two = beat("m2", two.MemberEpoch, nil)
	require.NotEmpty(t, two.ActiveTasks)
	require.Len(t, two.PartitionsByUserEndpoint, 1)
	require.NotEmpty(t, two.PartitionsByUserEndpoint[0].ActivePartitions)

	d := describe("app")
	require.Equal(t, []any{"Stable", int32(1), 2}, []any{d.State, d.Topology.Epoch, len(d.Members)})
	require.EqualValues(t, 2, d.Topology.Subtopologies[1].RepartitionSourceTopics[0].NumPartitions, "as many as its source has")
	m := d.Members[1]
	require.Equal(t, []any{"m2", "p-m2", "r", "h", uint16(65535), "zone"}, []any{m.MemberID, m.ProcessID, *m.RackID, m.UserEndpoint.Host, m.UserEndpoint.Port, m.ClientTags[0].Key})
	require.Equal(t, m.TargetAssignment, m.Assignment)
	require.Equal(t, []string{"app", "streams", "Stable", "streams"}, listed(list(nil, []string{"streams"})))

	stop := beat("m2", two.MemberEpoch, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
	require.EqualValues(t, 4, stop.Status[0].StatusCode)
	dead := ask[*kmsg.DescribeGroupsResponse](t, addr, 6, &kmsg.DescribeGroupsRequest{Groups: []string{"app"}}).Groups[0]
	require.Equal(t, []any{"Dead", int16(GroupIDNotFound), "Group app is not a classic group."}, []any{dead.State, dead.ErrorCode, *dead.ErrorMessage})
	require.Equal(t, "Group none not found.", *describe("none").ErrorMessage)
	require.Equal(t, int16(NonEmptyGroup), ask[*kmsg.DeleteGroupsResponse](t, addr, 2, &kmsg.DeleteGroupsRequest{Groups: []string{"app"}}).Groups[0].ErrorCode)
	for _, id := range []string{"m1", "m2"} {
		left := beat(id, -1, nil)
		require.Equal(t, []any{int16(0), int32(-1), id}, []any{left.ErrorCode, left.MemberEpoch, left.MemberID})
	}
	require.Equal(t, "Empty", describe("app").State)
	require.Zero(t, ask[*kmsg.DeleteGroupsResponse](t, addr, 2, &kmsg.DeleteGroupsRequest{Groups: []string{"app"}}).Groups[0].ErrorCode)
	require.Equal(t, int16(GroupIDNotFound), describe("app").ErrorCode)
}

func listed(groups []kmsg.ListGroupsResponseGroup) (out []string) {
	for _, g := range groups {
		out = append(out, g.Group, g.ProtocolType, g.GroupState, g.GroupType)
	}
	return out
}

func plainStatus(r *kmsg.StreamsGroupHeartbeatResponse) (out []kmsg.StreamsGroupHeartbeatResponseStatus) {
	for _, s := range r.Status {
		out = append(out, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: s.StatusCode, StatusDetail: s.StatusDetail})
	}
	return out
}

func plainTasks(all []kmsg.TaskIDs) (out []kmsg.TaskIDs) {
	for _, s := range all {
		out = append(out, kmsg.TaskIDs{SubtopologyID: s.SubtopologyID, Partitions: s.Partitions})
	}
	return out
}

// Checklist row S29.
func TestStreamsHeartbeatsAreRefusedInKafkasWords(t *testing.T) {
	addr := serveStreams(t)
	type edit = func(*kmsg.StreamsGroupHeartbeatRequest)
	none := []kmsg.TaskIDs{}
	some := []kmsg.TaskIDs{{SubtopologyID: "0"}}
	for text, c := range map[string]struct {
		epoch int32
		edit  edit
		code  Code
	}{
		"Static membership is not yet supported.": {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("i") }, InvalidRequest},
		"TaskOffsets are not supported yet.":      {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskOffsets = []kmsg.TaskOffset{} }, InvalidRequest},
		"TaskEndOffsets are not supported yet.":   {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskEndOffsets = []kmsg.TaskOffset{} }, InvalidRequest},
		"WarmupTasks are not supported yet.":      {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = some }, InvalidRequest},
		"Regular expressions for source topics are not supported yet.": {0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopicRegex = []string{"a.*"}
		}, InvalidRequest},
		"MemberId can't be empty.":                                    {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberID = " " }, InvalidRequest},
		"GroupId can't be empty.":                                     {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Group = "" }, InvalidRequest},
		"RackId can't be empty.":                                      {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RackID = kmsg.StringPtr("") }, InvalidRequest},
		"RebalanceTimeoutMs must be provided in first request.":       {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, InvalidRequest},
		"ActiveTasks must be empty when (re-)joining.":                {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = some }, InvalidRequest},
		"StandbyTasks must be empty when (re-)joining.":               {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.StandbyTasks = some }, InvalidRequest},
		"Topology must be non-null when (re-)joining.":                {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = nil }, InvalidRequest},
		"InstanceId can't be null.":                                   {-2, nil, InvalidRequest},
		"MemberEpoch is -3, but must be greater than or equal to -2.": {-3, nil, InvalidRequest},
		"If one task-type is non-null, all must be non-null.":         {1, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks, r.StandbyTasks = none, none }, InvalidRequest},
		"Topology can only be provided when (re-)joining.":            {1, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = countingTopology() }, InvalidRequest},
		"Streams group app not found.":                                {1, nil, GroupIDNotFound},
		"Group app not found.":                                        {-1, nil, GroupIDNotFound},
		"No source topics found for subtopology 1":                    {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology.Subtopologies[1].RepartitionSourceTopics = nil }, StreamsInvalidTopology},
		"Two subtopologies have the same id.":                         {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology.Subtopologies[1].SubtopologyID = "0" }, StreamsInvalidTopology},
		"The epoch of a topology cannot be -1.":                       {0, func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology.Epoch = -1 }, StreamsInvalidTopology},
		"Topic names a b,c/ are not valid topic names.": {0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = []string{"a b", "c/"}
		}, StreamsInvalidTopology},
		"Changelog topic app-counts must have an undefined partition count, but it is set to 2.": {0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.Topology.Subtopologies[1].StateChangelogTopics[0].NumPartitions = 2
		}, StreamsInvalidTopology},
		"Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.": {0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.Topology.Subtopologies[0].SourceTopics = []string{"__consumer_offsets", "a b"}
		}, StreamsInvalidTopology},
	} {
		resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", c.epoch, c.edit))
		require.Equal(t, c.code, Code(resp.ErrorCode), text)
		require.Equal(t, text, *resp.ErrorMessage)
		require.NotNil(t, resp.Status)
	}
}

// TestTasksOfWhoJoinsMustBeEmptyAndNotNull tests each of the three lists.
func TestTasksOfWhoJoinsMustBeEmptyAndNotNull(t *testing.T) {
	addr := serveStreams(t)
	for name, edit := range map[string]func(*kmsg.StreamsGroupHeartbeatRequest){
		"ActiveTasks":  func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = nil },
		"StandbyTasks": func(r *kmsg.StreamsGroupHeartbeatRequest) { r.StandbyTasks = nil },
		"WarmupTasks":  func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = nil },
	} {
		resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", 0, edit))
		require.Equal(t, InvalidRequest, Code(resp.ErrorCode), name)
		require.Equal(t, name+" must be empty when (re-)joining.", *resp.ErrorMessage)
	}
}

// Checklist row S29.
func TestInternalTopicsOfStreamsAreCreatedAsTheirMemberMay(t *testing.T) {
	s, addr := authorized(t, everything()...)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "in", topic.Config{Partitions: 2}))
	findStreams(t, addr)
	_, err := s.cluster.DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	allow := func(entries ...acl.Entry) {
		require.NoError(t, s.cluster.CreateACLs(t.Context(), entries...))
	}
	beat := func() *kmsg.StreamsGroupHeartbeatResponse {
		return ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", 0, nil))
	}
	describe := func() kmsg.StreamsGroupDescribeResponseGroup {
		return ask[*kmsg.StreamsGroupDescribeResponse](t, addr, 0, &kmsg.StreamsGroupDescribeRequest{Groups: []string{"app"}, IncludeAuthorizedOperations: true}).Groups[0]
	}
	refused := beat()
	require.Equal(t, []any{int16(GroupAuthorizationFailed), (*string)(nil)}, []any{refused.ErrorCode, refused.ErrorMessage})
	allow(rights(acl.Group, "app", acl.Read))
	refused = beat()
	require.Equal(t, []any{int16(TopicAuthorizationFailed), (*string)(nil)}, []any{refused.ErrorCode, refused.ErrorMessage})
	internal := ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[0].SourceTopics = []string{"__consumer_offsets"}
	}))
	require.Equal(t, StreamsInvalidTopology, Code(internal.ErrorCode), "whatever the client may do")
	allow(rights(acl.Topic, "in", acl.Describe), rights(acl.Topic, "app-words", acl.Describe), rights(acl.Topic, "app-counts", acl.Describe), rights(acl.Topic, "app-words", acl.Create))
	got := beat()
	require.Zero(t, got.ErrorCode)
	last := func(r *kmsg.StreamsGroupHeartbeatResponse) string { return r.Status[len(r.Status)-1].StatusDetail }
	require.Equal(t, "Internal topics are missing: app-counts, app-words; Unauthorized to CREATE on topics app-counts.", last(got))
	_, there := s.cluster.TopicID("app-words")
	require.False(t, there, "all, or none")
	allow(rights(acl.Topic, "app-counts", acl.Create))
	require.Equal(t, "Internal topics are missing: app-counts, app-words", last(beat()))
	require.Len(t, beat().Status, 1, "the topics are there; more members may come")

	require.Equal(t, Code(0), Code(describe().ErrorCode), "Read is Describe, too")
	require.Len(t, describe().Members, 1)
	no := rights(acl.Topic, "app-counts", acl.Describe)
	no.Permission = acl.Deny
	allow(no)
	hidden := kmsg.NewStreamsGroupDescribeResponseGroup()
	hidden.Group, hidden.ErrorCode, hidden.ErrorMessage = "app", int16(TopicAuthorizationFailed), kmsg.StringPtr(hiddenTopology)
	d := describe()
	require.Empty(t, d.Members)
	d.Members = nil
	require.Equal(t, hidden, d)
}

// Kafka answers UNKNOWN_SERVER_ERROR to it.
func TestAMemberWithAnEndpointJoinsBeforeItsTopicsAreThere(t *testing.T) {
	addr := serveStreams(t)
	resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", 0, func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[0].SourceTopics = []string{"absent"}
		r.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: "h", Port: 1}
	}))
	require.Zero(t, resp.ErrorCode)
	require.Equal(t, []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: 1, StatusDetail: "Source topics absent are missing."}}, plainStatus(resp))
	require.Len(t, resp.PartitionsByUserEndpoint, 1)
	require.Empty(t, resp.PartitionsByUserEndpoint[0].ActivePartitions)
}

// Checklist row S29.
func TestInternalTopicsThatCannotBeCreatedAreNamed(t *testing.T) {
	addr := serveStreams(t)
	beat := func(edit func(*kmsg.StreamsGroupHeartbeatRequest)) string {
		resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, addr, 0, streamsBeat("m", 0, edit))
		require.Zero(t, resp.ErrorCode)
		return resp.Status[0].StatusDetail
	}
	require.Equal(t, "Internal topics are missing: app-counts, app-words; Creation failed: app-counts (Unknown topic config name: no.such).", beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.Topology.Subtopologies[1].StateChangelogTopics[0].Configs[0].Key = "no.such"
	}))
}

// TestSettingsOfStreamsGroupsAreDescribed has the names and values that Kafka's brokers return.
func TestSettingsOfStreamsGroupsAreDescribed(t *testing.T) {
	addr := serveStreams(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}}
	resp := ask[*kmsg.DescribeConfigsResponse](t, addr, 4, req)
	got := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		if strings.HasPrefix(c.Name, "group.streams.") {
			got[strings.TrimPrefix(c.Name, "group.streams.")] = fmt.Sprint(*c.Value, " ", c.Source)
		}
	}
	require.Equal(t, map[string]string{
		"session.timeout.ms": "45000 DEFAULT_CONFIG", "min.session.timeout.ms": "45000 DEFAULT_CONFIG", "max.session.timeout.ms": "60000 DEFAULT_CONFIG",
		"heartbeat.interval.ms": "5000 DEFAULT_CONFIG", "min.heartbeat.interval.ms": "5000 DEFAULT_CONFIG", "max.heartbeat.interval.ms": "15000 DEFAULT_CONFIG",
		"assignment.interval.ms": "0 STATIC_BROKER_CONFIG", "min.assignment.interval.ms": "0 DEFAULT_CONFIG", "max.assignment.interval.ms": "15000 DEFAULT_CONFIG",
		"initial.rebalance.delay.ms": "0 STATIC_BROKER_CONFIG", "num.standby.replicas": "0 DEFAULT_CONFIG", "max.standby.replicas": "2 DEFAULT_CONFIG",
		"max.size": "2147483647 DEFAULT_CONFIG",
	}, got)
}
