package interop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsSteps are the steps with the tool of streams groups, while a group has a member and
// afterwards.
var streamsSteps = []step{
	{tool: "topics", args: "--create --topic clicks --partitions 2"},
	{tool: "console-producer", args: "--topic clicks", stdin: "one\ntwo\nthree\n"},
	{tool: "configs", args: "--alter --entity-type groups --entity-name counting --add-config streams.num.standby.replicas=1,streams.session.timeout.ms=50000"},
	{tool: "configs", args: "--alter --entity-type groups --entity-name counting --add-config streams.num.standby.replicas=3"},
	{tool: "configs", args: "--describe --entity-type groups --entity-name counting"},
	{does: joinStreams},
	{tool: "streams-groups", args: "--list"},
	{tool: "streams-groups", args: "--list --state"},
	{tool: "streams-groups", args: "--list --state stable,Empty"},
	{tool: "groups", args: "--list --streams"},
	{tool: "groups", args: "--list --group-type streams --protocol streams"},
	{tool: "streams-groups", args: "--describe --group counting"},
	{tool: "streams-groups", args: "--describe --group counting --members"},
	{tool: "streams-groups", args: "--describe --group counting --members --verbose"},
	{tool: "streams-groups", args: "--describe --group counting --offsets"},
	{tool: "streams-groups", args: "--describe --group counting --offsets --verbose"},
	{tool: "streams-groups", args: "--describe --group counting --state"},
	{tool: "streams-groups", args: "--describe --group counting --state --verbose"},
	{tool: "streams-groups", args: "--describe --all-groups"},
	{tool: "streams-groups", args: "--describe --group none"},
	{tool: "consumer-groups", args: "--describe --group counting"},
	{tool: "streams-groups", args: "--delete --group counting"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --input-topic clicks --to-earliest --execute"},
	{tool: "streams-groups", args: "--delete-offsets --group counting --input-topic clicks"},
	{does: leaveStreams},
	{tool: "streams-groups", args: "--describe --group counting --state"},
	{tool: "streams-groups", args: "--describe --group counting --members"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --input-topic clicks --to-latest --dry-run"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --input-topic clicks --to-latest --execute"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --input-topic clicks:0 --to-offset 1 --execute"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --all-input-topics --shift-by -1 --execute"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --all-input-topics --to-current --export --dry-run"},
	{tool: "streams-groups", args: "--reset-offsets --group counting --input-topic none --to-earliest --execute"},
	{tool: "streams-groups", args: "--describe --group counting --offsets"},
	{tool: "streams-groups", args: "--delete-offsets --group counting --input-topic clicks:0"},
	{tool: "streams-groups", args: "--delete-offsets --group counting --input-topic none"},
	{tool: "streams-groups", args: "--delete --group counting"},
	{tool: "streams-groups", args: "--delete --group counting"},
	{tool: "streams-groups", args: "--list"},
	{tool: "topics", args: "--delete --topic clicks"},
}

// beatStreams sends a heartbeat of the only member of the group counting, which reads clicks.
func beatStreams(t *testing.T, addr string, epoch int32) *kmsg.StreamsGroupHeartbeatResponse {
	t.Helper()
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "counting", "a-member", epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.ProcessID = 60_000, ptr("a-process")
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Epoch: 1, Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
			{SubtopologyID: "0", SourceTopics: []string{"clicks"}, StateChangelogTopics: []kmsg.TopicInfo{{Topic: "counting-store-changelog"}}},
		}}
	}
	return askStreams(t, addr, req).(*kmsg.StreamsGroupHeartbeatResponse)
}

func askStreams(t *testing.T, addr string, req kmsg.Request) kmsg.Response {
	t.Helper()
	c := &wireClient{addr: addr, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("counting-client"))}
	require.NoError(t, c.dial())
	defer c.nc.Close()
	resp, err := c.ask(req)
	require.NoError(t, err)
	return resp
}

// joinStreams has the member join, and wait for its tasks.
func joinStreams(t *testing.T, addr string) {
	epoch := int32(0)
	eventually(t, "the member has tasks", func() bool {
		if epoch == 0 { // FindCoordinator creates the offsets topic
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.Version, find.CoordinatorKeys = 4, []string{"counting"}
			askStreams(t, addr, find)
		}
		r := beatStreams(t, addr, epoch)
		epoch = r.MemberEpoch
		return r.ErrorCode == 0 && len(r.ActiveTasks) > 0
	})
}

func leaveStreams(t *testing.T, addr string) { require.Zero(t, beatStreams(t, addr, -1).ErrorCode) }
