package interop

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The Java client and Kafka's own command-line tools.

// A program runs many checks in one process, because starting it costs seconds. It prints "ok
// NAME" or "failed NAME REASON" for each.
type program struct {
	command func(t *testing.T, ctx context.Context, addr string) *exec.Cmd

	mu   sync.Mutex
	runs map[string]*programRun // by address
}

type programRun struct {
	once    sync.Once
	results map[string]string
	output  string
}

// programTimeout bounds all checks of a program.
const programTimeout = 3 * time.Minute

// result runs the program if it has not run against k yet. It fails the test unless the program's
// output has the check as ok.
func (p *program) result(t *testing.T, k target, name string) {
	p.mu.Lock()
	if p.runs == nil {
		p.runs = map[string]*programRun{}
	}
	r := p.runs[k.addr]
	if r == nil {
		r = &programRun{results: map[string]string{}}
		p.runs[k.addr] = r
	}
	p.mu.Unlock()
	// not the test's context: other tests need the program's result too
	ctx, cancel := context.WithTimeout(context.Background(), programTimeout)
	defer cancel()
	cmd := p.command(t, ctx, k.addr)
	r.once.Do(func() {
		out, err := cmd.CombinedOutput()
		r.output = string(out)
		if err != nil {
			r.output += err.Error()
		}
		for line := range strings.Lines(r.output) {
			if verdict, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && (verdict == "ok" || verdict == "failed") {
				check, _, _ := strings.Cut(rest, " ")
				r.results[check] = strings.TrimSpace(line)
			}
		}
	})
	got, ran := r.results[name]
	require.True(t, ran, "not run, of %v; output: %s", maps.Keys(r.results), r.output)
	require.Equal(t, "ok "+name, got)
}

var javaProgram = program{command: func(t *testing.T, ctx context.Context, addr string) *exec.Cmd {
	source, err := filepath.Abs("java/Interop.java")
	require.NoError(t, err)
	return kafkaKit(t).Java(ctx, source, addr)
}}

var _ = func() bool {
	for _, name := range []string{"produce-none", "produce-gzip", "produce-snappy", "produce-lz4", "produce-zstd", "produce-acks-1", "produce-acks-0",
		"group-RangeAssignor", "group-RoundRobinAssignor", "group-StickyAssignor", "group-CooperativeStickyAssignor", "group-default-assignors", "group-static",
		"consumer-protocol-uniform", "consumer-protocol-range", "consumer-protocol-static",
		"consumer-positions", "admin-topics", "admin-configs", "admin-records", "admin-groups", "admin-cluster",
		"transactions", "transform-exactly-once"} {
		add("java/"+name, func(t *testing.T, k target) { javaProgram.result(t, k, name) })
	}
	return true
}()

// tool runs one of Kafka's scripts against the target and returns its output.
func tool(t *testing.T, k target, name string, args ...string) string {
	t.Helper()
	return toolIn(t, k, "", name, args...)
}

func toolIn(t *testing.T, k target, stdin, name string, args ...string) string {
	t.Helper()
	cmd := kafkaKit(t).Tool(within(t), name, append([]string{"--bootstrap-server", k.addr}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return run(t, cmd)
}

var _ = add("tools/topics", func(t *testing.T, k target) {
	topic := fresh("topic")
	require.Contains(t, tool(t, k, "topics", "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=1234567"), "Created topic "+topic)
	out := tool(t, k, "topics", "--describe", "--topic", topic)
	require.Contains(t, out, "PartitionCount: 2")
	require.Contains(t, out, "retention.ms=1234567")
	require.Contains(t, tool(t, k, "topics", "--list"), topic)
	tool(t, k, "topics", "--alter", "--topic", topic, "--partitions", "4")
	tool(t, k, "topics", "--delete", "--topic", topic)
})

var _ = add("tools/console-producer-and-consumer", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 1), fresh("group")
	toolIn(t, k, "k1:v1\nk2:v2\n", "console-producer", "--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
	out := tool(t, k, "console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2", "--group", group, "--timeout-ms", "30000", "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
	require.Contains(t, out, "Offset:0\tk1\tv1\nOffset:1\tk2\tv2\n")
	groups := tool(t, k, "consumer-groups", "--describe", "--group", group)
	require.Regexp(t, group+`\s+`+topic+`\s+0\s+2\s+2\s+0`, groups)
})

var _ = add("tools/consumer-groups", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 1), fresh("group")
	seed(t, k, topic, 9)
	h, stop := saramaMember(t, k, topic, group, saramaConfig())
	eventually(t, "the group reads", func() bool { _, n := h.get(); return n == 9 })
	require.Regexp(t, group+`.*Stable\s+1`, tool(t, k, "consumer-groups", "--describe", "--group", group, "--state"))
	require.Contains(t, tool(t, k, "consumer-groups", "--describe", "--group", group, "--members", "--verbose"), topic+":0")
	stop()
	require.Regexp(t, topic+`\s+0\s+4`, tool(t, k, "consumer-groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "4", "--execute"))
	require.Regexp(t, topic+`\s+0\s+4\s+9\s+5`, tool(t, k, "consumer-groups", "--describe", "--offsets", "--group", group))
	require.Contains(t, tool(t, k, "consumer-groups", "--list", "--state", "empty"), group)
	require.Contains(t, tool(t, k, "consumer-groups", "--delete", "--group", group), "was successful")
})

var _ = add("tools/groups", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 1), fresh("group")
	h, _ := saramaMember(t, k, topic, group, saramaConfig())
	eventually(t, "the group has a member", func() bool { o, _ := h.get(); return o == 1 })
	require.Regexp(t, group+`\s+Classic\s+consumer`, tool(t, k, "groups", "--list"))
})

var _ = add("tools/configs", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	tool(t, k, "configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]")
	out := tool(t, k, "configs", "--describe", "--entity-type", "topics", "--entity-name", topic, "--all")
	require.Contains(t, out, "retention.ms=1234567 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1234567")
	require.Contains(t, out, "cleanup.policy=compact,delete")
	tool(t, k, "configs", "--alter", "--entity-type", "topics", "--entity-name", topic, "--delete-config", "retention.ms")
	require.Contains(t, tool(t, k, "configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"), "log.segment.bytes")
})

var _ = add("tools/get-offsets-and-delete-records", func(t *testing.T, k target) {
	topic := newTopic(t, k, 2)
	seed(t, k, topic, 7)
	offsets := filepath.Join(t.TempDir(), "offsets.json")
	writeFile(t, offsets, `{"partitions":[{"topic":"`+topic+`","partition":0,"offset":3}],"version":1}`)
	require.Contains(t, tool(t, k, "delete-records", "--offset-json-file", offsets), "low_watermark: 3")
	require.Equal(t, topic+":0:7\n"+topic+":1:0\n", tool(t, k, "get-offsets", "--topic", topic))
	require.Contains(t, tool(t, k, "get-offsets", "--topic", topic, "--time", "earliest"), topic+":0:3")
	// any of the records of the last millisecond
	require.Contains(t, tool(t, k, "get-offsets", "--topic", topic, "--time", "max-timestamp"), topic+":0:")
})

var _ = add("tools/cluster", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	seed(t, k, topic, 1)
	clusterTool := func(command string) string {
		return run(t, kafkaKit(t).Tool(within(t), "cluster", command, "--bootstrap-server", k.addr))
	}
	require.Contains(t, clusterTool("cluster-id"), "Cluster ID: ")
	require.Contains(t, clusterTool("list-endpoints"), "127.0.0.1")
	require.Contains(t, tool(t, k, "log-dirs", "--describe", "--topic-list", topic), `"partition":"`+topic+`-0"`)
	require.Contains(t, tool(t, k, "metadata-quorum", "describe", "--status"), "LeaderId:")
	// Strata has no metadata.version
	if out := tool(t, k, "features", "describe"); k.kind != "strata" {
		require.Contains(t, out, "metadata.version")
	}
})

var _ = add("tools/broker-api-versions", func(t *testing.T, k target) {
	out := tool(t, k, "broker-api-versions")
	require.Contains(t, out, k.addr)
	require.Contains(t, out, "Fetch(1): 4 to 18 [usable: 18]")
	require.Contains(t, out, "OffsetFetch(9): 1 to 10 [usable: 10]")
})

var _ = add("tools/perf-tests", func(t *testing.T, k target) {
	topic := newTopic(t, k, 3)
	out := tool(t, k, "producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1")
	require.Contains(t, out, "20000 records sent")
	tool(t, k, "consumer-perf-test", "--topic", topic, "--num-records", "20000", "--from-latest=false", "--timeout", "30000")
})

var _ = add("tools/verifiable-producer-and-consumer", func(t *testing.T, k target) {
	topic, group := newTopic(t, k, 2), fresh("group")
	out := tool(t, k, "verifiable-producer", "--topic", topic, "--max-messages", "100")
	require.Contains(t, out, `"acked":100`)
	out = tool(t, k, "verifiable-consumer", "--topic", topic, "--group-id", group, "--max-messages", "100", "--reset-policy", "earliest", "--group-protocol", "classic")
	require.Contains(t, out, `"name":"offsets_committed"`)
	require.NotContains(t, out, `"success":false`)
})
