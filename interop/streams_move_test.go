package interop

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafkadir"
)

// describeCounting returns a broker's description of the group counting, once it has the group. It
// leaves out the partitions of internal topics: Kafka returns them only after a member's
// heartbeat.
func describeCounting(t *testing.T, k target) (g kmsg.StreamsGroupDescribeResponseGroup) {
	t.Helper()
	eventually(t, "the group is there", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKeys = 4, []string{"counting"}
		askStreams(t, k.addr, find)
		req := kmsg.NewPtrStreamsGroupDescribeRequest()
		req.Groups = []string{"counting"}
		g = askStreams(t, k.addr, req).(*kmsg.StreamsGroupDescribeResponse).Groups[0]
		return g.ErrorCode == 0
	})
	for i := range g.Topology.Subtopologies {
		for k := range g.Topology.Subtopologies[i].StateChangelogTopics {
			g.Topology.Subtopologies[i].StateChangelogTopics[k].NumPartitions = 0
		}
	}
	return g
}

// commitCounting commits an offset as the group's member.
func commitCounting(t *testing.T, k target, epoch int32, offset int64) {
	t.Helper()
	req, topic, p := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	req.Version, req.Group, req.MemberID, req.Generation = 9, "counting", "a-member", epoch
	topic.Topic, p.Offset = "clicks", offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	require.Zero(t, askStreams(t, k.addr, req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

// TestStreamsGroupsMoveBetweenKafkaAndStrata has Strata take over a group of Kafka's, and Kafka
// take it back. All three describe the same group: its topology, its member, its tasks and its
// offsets. In between, Kafka's tool reads the group's records that Strata wrote.
func TestStreamsGroupsMoveBetweenKafkaAndStrata(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	b, err := kit.Start(within(t), t.TempDir(), "group.streams.initial.rebalance.delay.ms=0")
	require.NoError(t, err)
	defer b.Stop()
	theirs := target{kind: "kafka", addr: b.Addr, dir: b.Dir}
	createNamed(t, theirs, "clicks", 2)
	joinStreams(t, theirs.addr)
	at := describeCounting(t, theirs)
	require.Len(t, at.Members, 1)
	require.Len(t, at.Topology.Subtopologies, 1)
	commitCounting(t, theirs, at.Members[0].MemberEpoch, 7)
	committed, err := admin(t, theirs).FetchOffsets(within(t), "counting")
	require.NoError(t, err)
	b.Stop()

	dir := filepath.Join(t.TempDir(), "imported")
	_, err = kafkadir.Import(within(t), kafkadir.ImportConfig{From: []string{b.Dir}, Dir: dir})
	require.NoError(t, err)
	ks, stop := startStrataWith(t, 1, func(cfg *strata.Config) { newMoved(cfg); cfg.Dir = dir })
	require.Equal(t, at, describeCounting(t, ks[0]))
	requireSameOffsets(t, ks[0], "counting", committed)
	leaveStreams(t, ks[0].addr) // writes the records of a member that leaves and joins
	joinStreams(t, ks[0].addr)
	at = describeCounting(t, ks[0])
	require.Len(t, at.Members, 1)
	commitCounting(t, ks[0], at.Members[0].MemberEpoch, 9)
	committed, err = admin(t, ks[0]).FetchOffsets(within(t), "counting")
	require.NoError(t, err)
	stop()
	requireKafkaDecodes(t, dir)

	again := handOver(t, kit, dir)
	// The directory is one of Kafka 4.0, which had no streams groups. An operator upgrades from
	// there.
	run(t, kit.Tool(within(t), "features", "--bootstrap-server", again.addr, "upgrade", "--release-version", "4.3"))
	require.Equal(t, at, describeCounting(t, again))
	requireSameOffsets(t, again, "counting", committed)
}

// requireKafkaDecodes has Kafka's tool print the stored records of groups, and requires all kinds
// of a streams group's records.
func requireKafkaDecodes(t *testing.T, dir string) {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, "__consumer_offsets-") && filepath.Ext(path) == ".log" {
			files = append(files, path)
		}
		return err
	}))
	out := run(t, kafkaKit(t).Tool(within(t), "dump-log", "--offsets-decoder", "--files", strings.Join(files, ",")))
	for _, key := range []string{"17", "19", "20", "21", "22", "23"} { // of streams groups
		require.Contains(t, out, `"type":"`+key+`"`)
	}
	require.NotRegexp(t, `(?i)corrupt|exception|unknown`, out)
}
