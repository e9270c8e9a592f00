package interop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/interop/apache"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// These tests have Kafka's tools read the metadata of Strata's brokers.

// manyTopics returns so many topics that creating them takes more than a batch of metadata.
func manyTopics(prefix string) (specs []replication.TopicSpec) {
	props := map[string]string{}
	for _, key := range []string{
		"retention.ms", "segment.ms", "retention.bytes", "flush.ms", "flush.messages", "index.interval.bytes", "file.delete.delay.ms",
		"delete.retention.ms", "min.compaction.lag.ms", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
	} {
		props[key] = "4096"
	}
	for i := range 450 {
		specs = append(specs, replication.TopicSpec{Name: fmt.Sprint(prefix, i, strings.Repeat("-", 230)), Config: topic.Config{Properties: props}})
	}
	return specs
}

// writeMetadata creates a cluster of three brokers with every kind of record in its metadata, and
// closes it. It returns the id of the topic "orders", and the number of topics. The last bulk
// write is a snapshot if snapshot is set, else a change.
func writeMetadata(t *testing.T, dir string, snapshot bool) (orders string, topics int) {
	t.Helper()
	specs := map[int32]replication.BrokerSpec{}
	for id := int32(1); id <= 3; id++ {
		specs[id] = replication.BrokerSpec{Rack: fmt.Sprint("rack", id)}
	}
	c, err := replication.Open(replication.Config{Dir: dir, Brokers: 3, BrokerSpecs: specs})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 4, Properties: map[string]string{"retention.ms": "123456"}}))
	require.NoError(t, c.CreateTopic(ctx, "gone", topic.Config{}))
	require.NoError(t, c.DeleteTopic(ctx, "gone"))
	bulk := []string{"first"} // the change is larger than the log before it: a snapshot follows
	if !snapshot {
		bulk = append(bulk, "second")
	}
	for _, name := range bulk {
		for _, err := range c.CreateTopics(ctx, manyTopics(name)) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, c.AddPartitions(ctx, "orders", 6))
	require.NoError(t, c.AlterBrokerConfig(ctx, replication.AllBrokers, replication.ConfigChange{Key: "log.segment.bytes", Value: "1048576"}))
	_, _, err = c.InitProducerID(ctx)
	require.NoError(t, err)
	require.NoError(t, c.StopBroker(ctx, 2))
	require.NoError(t, c.StartBroker(ctx, 2))
	require.NoError(t, c.KillBroker(3))
	info, err := c.Topic(ctx, "orders")
	require.NoError(t, err)
	require.NoError(t, c.StartBroker(ctx, 3))
	require.NoError(t, c.Close())
	return info.ID.String(), 1 + len(bulk)*len(manyTopics(""))
}

// TestKafkasMetadataToolsReadEveryBrokersCopy has the metadata shell and the dump tool read the
// metadata copies of three brokers.
func TestKafkasMetadataToolsReadEveryBrokersCopy(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	for _, snapshot := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		id, topics := writeMetadata(t, dir, snapshot)
		for broker := 1; broker <= 3; broker++ {
			files, err := filepath.Glob(filepath.Join(dir, fmt.Sprint("broker-", broker), "__cluster_metadata-0", "*.log"))
			require.NoError(t, err)
			require.NotEmpty(t, files)

			out := run(t, kit.Tool(within(t), "dump-log", "--cluster-metadata-decoder", "--files", strings.Join(files, ",")))
			require.NotRegexp(t, `(?i)isvalid: false|corrupt|exception|not valid|could not`, out)
			for _, kind := range []string{
				"FEATURE_LEVEL", "REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE", "TOPIC", "PARTITION", "PARTITION_CHANGE", "CONFIG", "PRODUCER_IDS",
				"BEGIN_TRANSACTION", "END_TRANSACTION",
			} {
				require.Contains(t, out, `"type":"`+kind+`_RECORD"`, kind)
			}
			if !snapshot {
				require.Contains(t, out, `"name":"change"`)
			}
			require.Contains(t, out, `"name":"snapshot"`)
			require.Regexp(t, `PARTITION_RECORD","version":1,.*"directories":\["[^"]{22}"\]`, out)

			offsets := regexp.MustCompile(`\| offset: (\d+)`).FindAllStringSubmatch(out, -1)
			last := offsets[len(offsets)-1][1]

			sh := startShell(t, kit, files[len(files)-1], last)
			require.Contains(t, sh.ask("tree image/features"), "Optional[4.2-IV1]")
			brokers := sh.ask("tree image/cluster/brokers")
			require.Equal(t, 3, strings.Count(brokers, "fenced=false, inControlledShutdown=false"), brokers)
			names := strings.Fields(sh.ask("ls image/topics/byName"))
			require.Contains(t, names, "orders")
			require.NotContains(t, names, "gone")
			require.Len(t, names, topics)
			orders := sh.ask("tree image/topics/byName/orders")
			require.Contains(t, orders, id)
			require.Equal(t, 6, strings.Count(orders, "leaderRecoveryState=RECOVERED"), orders)
			for i := range 6 {
				on := i%3 + 1
				require.Regexp(t, fmt.Sprintf(`(?m)^%d:\n  PartitionRegistration\(replicas=\[%d\], directories=\[%s\], isr=\[%d\],.* elr=\[\], lastKnownElr=\[\], leader=%d,`,
					i, on, regexp.QuoteMeta(directoryID(t, dir, on)), on, on), orders)
			}
			require.Contains(t, sh.ask("cat image/configs/TOPIC:orders/retention.ms"), "123456")
			require.Contains(t, sh.ask("tree image/producerIds"), "1000")
			sh.end()
		}
	}
}

// directoryID returns the directory id in the meta.properties of a broker.
func directoryID(t *testing.T, dir string, broker int) string {
	t.Helper()
	p, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("broker-", broker), "meta.properties"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^directory\.id=(.*)$`).FindSubmatch(p)
	require.NotNil(t, m)
	return string(m[1])
}

// A shell is Kafka's metadata shell over a file.
type shell struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	all strings.Builder // its output so far
}

// startShell starts the shell and waits until it has loaded the record at offset last. The shell
// accepts commands before that.
func startShell(t *testing.T, kit *apache.Kit, file, last string) *shell {
	t.Helper()
	sh := &shell{t: t, cmd: kit.Tool(within(t), "metadata-shell", "--snapshot", file)}
	var err error
	sh.in, err = sh.cmd.StdinPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe() // stdout and stderr: errors during loading are on stderr
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	sh.cmd.Stdout, sh.cmd.Stderr, sh.out = w, w, bufio.NewReader(r)
	require.NoError(t, sh.cmd.Start())
	w.Close()
	sh.answer()
	for !strings.Contains(sh.ask("cat image/provenance"), "offset "+last+",") {
		require.NotRegexp(t, `(?i)exception|fault`, sh.all.String())
	}
	return sh
}

// ask runs a command in the shell and returns its output.
func (sh *shell) ask(command string) string {
	sh.t.Helper()
	_, err := fmt.Fprintln(sh.in, command)
	require.NoError(sh.t, err)
	return sh.answer()
}

// answer reads up to the prompt.
func (sh *shell) answer() string {
	sh.t.Helper()
	var s strings.Builder
	for !strings.HasSuffix(s.String(), ">> ") {
		b, err := sh.out.ReadByte()
		require.NoError(sh.t, err, "%s%s", sh.all.String(), s.String())
		s.WriteByte(b)
	}
	sh.all.WriteString(s.String())
	return strings.TrimSuffix(s.String(), ">> ")
}

// end ends the shell, which must have reported no error.
func (sh *shell) end() {
	sh.t.Helper()
	require.NoError(sh.t, sh.in.Close())
	rest, err := io.ReadAll(sh.out)
	require.NoError(sh.t, err)
	require.NoError(sh.t, sh.cmd.Wait())
	require.NotRegexp(sh.t, `(?i)exception|fault|error`, sh.all.String()+string(rest))
}
