package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/replication"
)

// administered is a cluster of three brokers, each in a rack of its own. Consumers may read from
// followers.
type administered struct {
	target
	kill func(broker int32)
}

func administeredStrata(t *testing.T) administered {
	s := kafkatest.New(t, kafkatest.Config{
		Brokers: 3, Racks: []string{"rack1", "rack2", "rack3"}, Dir: t.TempDir(), ReplicaSelector: replication.RackAwareSelector,
	})
	return administered{target{kind: "strata", addr: strings.Join(s.Addrs(), ",")}, s.KillBroker}
}

func administeredKafka(t *testing.T) administered {
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	brokers, err := kit.StartCluster(ctx, t.TempDir(), 3, "replica.selector.class="+replication.RackAwareSelector.Class(),
		"broker.session.timeout.ms=4000", "broker.heartbeat.interval.ms=500")
	require.NoError(t, err)
	var addrs []string
	for _, b := range brokers {
		t.Cleanup(b.Stop)
		addrs = append(addrs, b.Addr)
	}
	k := administered{target{kind: "kafka", addr: strings.Join(addrs, ",")}, func(id int32) { brokers[id-1].Kill() }}
	eventually(t, "all brokers serve", func() bool {
		md, err := admin(t, k.target).BrokerMetadata(within(t))
		return err == nil && len(md.Brokers) == 3
	})
	return k
}

// transcribed has the output of each step of an administration, by the step's name.
type transcribed struct {
	t     *testing.T
	k     administered
	names []string
	said  map[string]string
}

// own matches text that differs between any two clusters.
var own = regexp.MustCompile(`TopicId: \S+|127\.0\.0\.1:\d+|\t?Configs: \S*|"log_dirs":\[.*?\]`)

// warning matches a log line of a tool that tried the address of a stopped broker.
var warning = regexp.MustCompile(`(?m)^.* WARN .*\n`)

func (x *transcribed) note(name, said string) {
	x.names = append(x.names, name)
	x.said[name] = own.ReplaceAllString(warning.ReplaceAllString(said, ""), "OWN")
}

func (x *transcribed) tool(name, tool string, args ...string) {
	x.t.Helper()
	x.note(name, toolIn(x.t, x.k.target, "", tool, args...))
}

// awaitLine repeats tool until its output contains line.
func (x *transcribed) awaitLine(line, name, tool string, args ...string) {
	x.t.Helper()
	said := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said, line); {
		require.True(x.t, time.Now().Before(deadline), "%s: no %q in %s", name, line, said)
		said = toolIn(x.t, x.k.target, "", tool, args...)
	}
	x.note(name, said)
}

// administer manages replicas with Kafka's tools, as an administrator does.
func administer(t *testing.T, k administered) *transcribed {
	x := &transcribed{t: t, k: k, said: map[string]string{}}
	for topic, assignment := range map[string]string{"led": "1:2:3,2:3:1", "moved": "1:2"} {
		tool(t, k.target, "topics", "--create", "--topic", topic, "--replica-assignment", assignment, "--config", "min.insync.replicas=1")
	}
	p := franz(t, k.target, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for _, topic := range []string{"led", "led", "moved"} {
		require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr())
	}
	x.tool("topics", "topics", "--describe", "--topic", "led")
	x.note("followers", followerFetches(t, k.target))
	x.note("directories", directories(t, k.target))

	plan := filepath.Join(t.TempDir(), "plan.json")
	writeFile(t, plan, `{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[2,3]}]}`)
	x.tool("reassignment begins", "reassign-partitions", "--execute", "--reassignment-json-file", plan)
	x.awaitLine("is completed", "reassignment verified", "reassign-partitions", "--verify", "--reassignment-json-file", plan)
	x.tool("reassigned", "topics", "--describe", "--topic", "moved")
	x.tool("nothing is reassigned", "reassign-partitions", "--list")

	x.throttle()

	k.kill(3)
	x.awaitLine("Isr: 2,1\t", "a broker is gone", "topics", "--describe", "--topic", "led")
	x.tool("under-replicated", "topics", "--describe", "--under-replicated-partitions")
	x.tool("not available", "topics", "--describe", "--unavailable-partitions")
	reassign(t, k.target, "led", 0, 2, 1)
	reassign(t, k.target, "moved", 0, 1, 2, 3)
	eventually(t, "another replica is in sync", func() bool {
		md, err := admin(t, k.target).Metadata(within(t), "moved")
		return err == nil && slices.Contains(md.Topics["moved"].Partitions[0].ISR, 1)
	})
	reassign(t, k.target, "moved", 0, 1, 3)
	x.tool("reassignment waits", "reassign-partitions", "--list")
	writeFile(t, plan, `{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[1,3]}]}`)
	x.tool("reassignment is verified", "reassign-partitions", "--verify", "--reassignment-json-file", plan)
	x.tool("reassignment is shown", "topics", "--describe", "--topic", "moved")
	x.tool("reassignment is cancelled", "reassign-partitions", "--cancel", "--preserve-throttles", "--reassignment-json-file", plan)
	x.tool("cancelled", "topics", "--describe", "--topic", "moved")

	x.tool("preferred leader", "leader-election", "--election-type", "preferred", "--topic", "led", "--partition", "0")
	x.tool("elected", "topics", "--describe", "--topic", "led")
	x.tool("election not needed", "leader-election", "--election-type", "preferred", "--topic", "led", "--partition", "0")
	endpoints := run(t, kafkaKit(t).Tool(within(t), "cluster", "list-endpoints", "--bootstrap-server", k.addr, "--include-fenced-brokers"))
	x.note("endpoints", regexp.MustCompile(`\b\d{4,5}\b`).ReplaceAllString(endpoints, "PORT"))
	x.quorum()
	return x
}

func (x *transcribed) throttle() {
	tool(x.t, x.k.target, "topics", "--create", "--topic", "spared", "--replica-assignment", "1:2")
	plan := filepath.Join(x.t.TempDir(), "plan.json")
	writeFile(x.t, plan, `{"version":1,"partitions":[{"topic":"spared","partition":0,"replicas":[2,3]}]}`)
	x.tool("throttled reassignment begins", "reassign-partitions", "--execute", "--throttle", "1000000", "--reassignment-json-file", plan)
	x.tool("throttled replicas", "configs", "--describe", "--entity-type", "topics", "--entity-name", "spared")
	x.tool("throttled rates", "configs", "--describe", "--entity-type", "brokers", "--entity-name", "3")
	x.awaitLine("is completed", "throttle is lifted", "reassign-partitions", "--verify", "--reassignment-json-file", plan)
	x.tool("no throttled replicas", "configs", "--describe", "--entity-type", "topics", "--entity-name", "spared")
	x.tool("no throttled rates", "configs", "--describe", "--entity-type", "brokers", "--entity-name", "3")
}

// reassign requests other replicas. Unlike Kafka's tool, it also names brokers that are down.
func reassign(t *testing.T, k target, topic string, partition int32, replicas ...int32) {
	t.Helper()
	r, rt, rp := kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rt.Topic, rp.Partition, rp.Replicas = topic, partition, replicas
	rt.Partitions, r.TimeoutMillis = append(rt.Partitions, rp), 10_000
	r.Topics = append(r.Topics, rt)
	got, err := r.RequestWith(within(t), franz(t, k))
	require.NoError(t, err)
	require.Zero(t, got.ErrorCode)
	require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
}

// quorum checks the tool's output about the metadata quorum. Voters differ between clusters, so it
// only requires the rest to be consistent.
func (x *transcribed) quorum() {
	status := toolIn(x.t, x.k.target, "", "metadata-quorum", "describe", "--status")
	leader := regexp.MustCompile(`LeaderId:\s+(\d+)`).FindStringSubmatch(status)
	require.NotEmpty(x.t, leader, status)
	require.Regexp(x.t, `MaxFollowerLag:\s+\d`, status)
	require.Regexp(x.t, `HighWatermark:\s+[1-9]`, status)
	replicas := toolIn(x.t, x.k.target, "", "metadata-quorum", "describe", "--replication")
	require.Regexp(x.t, `(?m)^`+leader[1]+`\s+\S+\s+\d+\s+0\s+.*Leader`, replicas)
	require.NotRegexp(x.t, `(?m)^3\s+\S+\s+\d+\s+0\s`, replicas, "it is gone")
}

// directories lists the partitions of each broker, with their lag.
func directories(t *testing.T, k target) string {
	out := toolIn(t, k, "", "log-dirs", "--describe", "--topic-list", "led,moved")
	var all struct {
		Brokers []struct {
			Broker  int32
			LogDirs []struct {
				Partitions []struct {
					Partition string
					Size      int64
					OffsetLag int64
					IsFuture  bool
				}
			}
		}
	}
	var lines []string
	for line := range strings.Lines(out) {
		if json.Unmarshal([]byte(line), &all) == nil {
			break
		}
	}
	for _, b := range all.Brokers {
		for _, d := range b.LogDirs {
			for _, p := range d.Partitions {
				lines = append(lines, fmt.Sprintf("%d has %s, any bytes: %t, lag %d, future: %t", b.Broker, p.Partition, p.Size > 0, p.OffsetLag, p.IsFuture))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// followerFetches fetches led-0, which has two records, from its leader and from a follower, as a
// client in several racks.
func followerFetches(t *testing.T, k target) string {
	md, err := admin(t, k).Metadata(within(t), "led")
	require.NoError(t, err)
	var brokers []*transcript
	for _, addr := range strings.Split(k.addr, ",") {
		brokers = append(brokers, newTranscript(t, target{kind: k.kind, addr: addr}))
	}
	ask := func(broker int, version int16, rack string, offset int64, epoch int32) kmsg.FetchResponseTopicPartition {
		r, rt, rp := kmsg.NewPtrFetchRequest(), kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		r.MaxBytes, r.MinBytes, r.MaxWaitMillis, r.SessionEpoch, r.Rack = 1<<20, 1, 0, -1, rack
		rt.Topic, rt.TopicID, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = "led", md.Topics["led"].ID, offset, 1<<20, epoch
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
		r.SetVersion(version)
		got, err := brokers[broker-1].exchange(r)
		require.NoError(t, err)
		return got.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	for _, follower := range []int{2, 3} {
		eventually(t, "the follower has all", func() bool { return ask(follower, 17, "", 0, -1).HighWatermark == 2 })
	}
	var said []string
	for _, version := range []int16{4, 10, 11, 12, 13, 16, 17} {
		for broker := 1; broker <= 2; broker++ {
			for _, rack := range []string{"", "rack1", "rack2", "rack3", "elsewhere"} {
				for offset := range int64(4) {
					for _, epoch := range []int32{-1, 0, 5} {
						p := ask(broker, version, rack, offset, epoch)
						said = append(said, fmt.Sprintf("v%d, broker %d, from %q, offset %d, epoch %d: error %d, %d-%d stable %d, preferred %d, records %t, leader %v",
							version, broker, rack, offset, epoch, p.ErrorCode, p.LogStartOffset, p.HighWatermark, p.LastStableOffset, p.PreferredReadReplica, len(p.RecordBatches) > 0, p.CurrentLeader.LeaderID))
					}
				}
			}
		}
	}
	return strings.Join(said, "\n")
}

// TestKafkasToolsShowWhatTheyShowOfKafka administers replicas with Kafka's own tools, against
// Strata and against Kafka. The output must be equal. Each call starts a JVM, which takes minutes
// in all, so the test needs STRATA_LONG.
func TestKafkasToolsShowWhatTheyShowOfKafka(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("it takes minutes; set STRATA_LONG")
	}
	mine := administer(t, administeredStrata(t))
	theirs := administer(t, administeredKafka(t))
	require.Equal(t, theirs.names, mine.names)
	for _, name := range theirs.names {
		if theirs.said[name] == mine.said[name] {
			continue
		}
		is := strings.Split(mine.said[name], "\n")
		for i, line := range strings.Split(theirs.said[name], "\n") {
			if i >= len(is) || is[i] != line {
				t.Errorf("%s\nKafka:  %s\nStrata: %s", name, theirs.said[name], mine.said[name])
				break
			}
		}
	}
}
