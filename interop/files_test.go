package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/interop/apache"
)

// Our files under Kafka's reader, and under a Kafka broker.

// written is what writeOneOfEverything left in a topic's partition 0: values by offset.
type written map[string]map[int64]string

// writeOneOfEverything fills topics in all the ways that change what is in the files, commits
// offsets of a group, and returns what can be read.
func writeOneOfEverything(t *testing.T, k target) (written, string) {
	all := written{}
	write := func(topic string, n int, opts ...kgo.Opt) {
		p := franz(t, k, append(opts, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		for i := range n {
			p.Produce(within(t), &kgo.Record{Key: fmt.Appendf(nil, "key%d", i%5), Value: fmt.Appendf(nil, "%s %d %s", topic, i, strings.Repeat("x", i%400)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}, func(r *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
					return
				}
			})
			if i%50 == 49 {
				require.NoError(t, p.Flush(within(t))) // several batches
			}
		}
		require.NoError(t, p.Flush(within(t)))
	}
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		topic := newTopic(t, k, 1)
		write(topic, 300, kgo.ProducerBatchCompression(codec))
		if name == "gzip" {
			write(topic, 20, kgo.DisableIdempotentWrite())
		}
		all[topic] = nil
	}
	appended := newTopic(t, k, 1, "message.timestamp.type=LogAppendTime")
	write(appended, 100)
	rolled := newTopic(t, k, 1, "segment.bytes=1048576")
	write(rolled, 9000, kgo.ProducerBatchCompression(kgo.NoCompression()))
	started := newTopic(t, k, 1)
	write(started, 100)
	_, err := admin(t, k).DeleteRecords(within(t), kadm.Offsets{started: {0: {Topic: started, At: 40}}})
	require.NoError(t, err)
	all[appended], all[rolled], all[started] = nil, nil, nil
	for topic := range all {
		all[topic] = readTopic(t, k, topic)
	}
	require.Len(t, all[started], 60)
	group := fresh("group")
	a := read(t, k, rolled, group)
	eventually(t, "the group reads", func() bool { return a.count() == 9000 })
	require.NoError(t, a.cl.CommitUncommittedOffsets(within(t)))
	a.stop()
	a.cl.LeaveGroup()
	return all, group
}

// readTopic reads partition 0 up to its end.
func readTopic(t *testing.T, k target, topic string) map[int64]string {
	t.Helper()
	ends, err := admin(t, k).ListEndOffsets(within(t), topic)
	require.NoError(t, err)
	end, _ := ends.Lookup(topic, 0)
	cl := franz(t, k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	got := map[int64]string{}
	for next := int64(0); next < end.Offset; {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			got[r.Offset] = fmt.Sprintf("%s=%s %v %d", r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
			next = r.Offset + 1
		})
	}
	return got
}

// partitionDir finds the directory of a partition in a cluster's.
func partitionDir(t *testing.T, dir, name string) string {
	t.Helper()
	found := findPartition(t, dir, name)
	require.NotEmpty(t, found, "no directory %s", name)
	return found
}

// findPartition is partitionDir of a partition that may never have been written; "": it was not.
func findPartition(t *testing.T, dir, name string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			found = path
		}
		return err
	}))
	return found
}

func TestKafkasDumpToolReadsOurFiles(t *testing.T) {
	kit := kafkaKit(t)
	k, stop := startStrata(t)
	all, group := writeOneOfEverything(t, k)
	stop()
	dump := func(args ...string) string {
		return run(t, kit.Tool(within(t), "dump-log", args...))
	}
	var logs, others []string
	for topic := range all {
		files, err := filepath.Glob(filepath.Join(partitionDir(t, k.dir, topic+"-0"), "*"))
		require.NoError(t, err)
		for _, f := range files {
			switch filepath.Ext(f) {
			case ".log":
				logs = append(logs, f)
			case ".index", ".timeindex", ".snapshot":
				others = append(others, f)
			}
		}
	}
	out := dump("--deep-iteration", "--print-data-log", "--files", strings.Join(logs, ","))
	records := 0
	for _, want := range all {
		records += len(want)
	}
	require.GreaterOrEqual(t, len(regexp.MustCompile(`\| offset: \d+`).FindAllString(out, -1)), records)
	require.NotRegexp(t, `(?i)isvalid: false|corrupt|exception|not valid`, out)
	for topic, want := range all {
		require.GreaterOrEqual(t, strings.Count(out, "payload: "+topic+" "), len(want), topic)
	}
	require.NotRegexp(t, `(?i)mismatch|corrupt|exception|should be`, dump("--index-sanity-check", "--files", strings.Join(others, ",")))
	require.NotRegexp(t, `(?i)mismatch|corrupt|exception|should be`, dump("--verify-index-only", "--files", strings.Join(others, ",")))

	var offsets []string
	require.NoError(t, filepath.WalkDir(k.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, "__consumer_offsets-") && filepath.Ext(path) == ".log" {
			offsets = append(offsets, path)
		}
		return err
	}))
	out = dump("--offsets-decoder", "--files", strings.Join(offsets, ","))
	require.Contains(t, out, group)
	require.Regexp(t, `"offset":9000`, out)
	require.NotRegexp(t, `(?i)corrupt|exception|unknown`, out)
}

func TestKafkaTakesOverOurDirectory(t *testing.T) {
	kit := kafkaKit(t)
	k, stop := startStrata(t)
	all, group := writeOneOfEverything(t, k)
	committed, err := admin(t, k).FetchOffsets(within(t), group)
	require.NoError(t, err)
	internal, err := admin(t, k).ListTopicsWithInternal(within(t), "__consumer_offsets")
	require.NoError(t, err)
	stop()

	topics := map[string]int32{"__consumer_offsets": int32(len(internal["__consumer_offsets"].Partitions))}
	for topic := range all {
		topics[topic] = 1
	}
	adopted := handOver(t, kit, k.dir, topics, takeover{})
	for topic, want := range all {
		got := readTopic(t, adopted, topic)
		require.Equal(t, len(want), len(got), topic)
		require.Equal(t, want, got, topic)
	}
	var again kadm.OffsetResponses
	eventually(t, "the group is loaded", func() bool {
		again, err = admin(t, adopted).FetchOffsets(within(t), group)
		return err == nil
	})
	require.NotEmpty(t, committed.Sorted())
	committed.Each(func(o kadm.OffsetResponse) {
		theirs, ok := again.Lookup(o.Topic, o.Partition)
		require.True(t, ok)
		require.Equal(t, o.At, theirs.At)
	})
	for topic := range all { // and it goes on from there
		require.NoError(t, franz(t, adopted, kgo.DefaultProduceTopic(topic)).ProduceSync(within(t), kgo.StringRecord("next")).FirstErr())
	}
}

// A takeover is how Kafka finds what it takes over.
type takeover struct {
	clean    bool     // as a broker that was stopped left it: nothing is recovered, our indexes count
	settings []string // of the Kafka that takes over
}

// handOver has a new Kafka take over topics, of as many partitions, from below a directory of ours.
// It gets topics of the same names, and while it is down our files in the place of its own. It
// recovers all of them, unless how says that they are clean: its marker of a clean stop and its
// checkpoints are taken away, but those of where logs start.
func handOver(t *testing.T, kit *apache.Kit, dir string, topics map[string]int32, how takeover) target {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b, err := kit.Start(ctx, home)
	require.NoError(t, err)
	adopted := target{kind: "kafka", addr: b.Addr}
	for topic, partitions := range topics {
		if strings.HasPrefix(topic, "__") {
			createNamed(t, adopted, topic, partitions, "cleanup.policy=compact")
		} else {
			createNamed(t, adopted, topic, partitions)
		}
	}
	b.Stop()
	for topic, partitions := range topics {
		for p := range partitions {
			swapPartition(t, dir, b.Dir, fmt.Sprintf("%s-%d", topic, p), how.clean)
		}
	}
	stale := []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint"}
	if !how.clean {
		stale = append(stale, ".kafka_cleanshutdown")
	}
	for _, name := range stale {
		os.Remove(filepath.Join(b.Dir, name))
	}
	if starts := checkpoints(t, dir, "log-start-offset-checkpoint"); starts != "" {
		writeFile(t, filepath.Join(b.Dir, "log-start-offset-checkpoint"), starts)
	}
	b, err = kit.Start(ctx, home, how.settings...)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	adopted.addr = b.Addr
	return adopted
}

// swapPartition puts the files of a partition below from, if there are any, in the place of those
// that dir has; without the indexes, unless it is told, so that they are made anew.
func swapPartition(t *testing.T, from, dir, name string, indexes bool) {
	t.Helper()
	from, to := findPartition(t, from, name), filepath.Join(dir, name)
	if from == "" {
		return
	}
	old, err := filepath.Glob(filepath.Join(to, "*"))
	require.NoError(t, err)
	for _, f := range old {
		if filepath.Base(f) != "partition.metadata" {
			require.NoError(t, os.Remove(f))
		}
	}
	files, err := filepath.Glob(filepath.Join(from, "*"))
	require.NoError(t, err)
	for _, f := range files {
		if base := filepath.Base(f); base != "partition.metadata" && (indexes || !strings.HasSuffix(base, "index")) {
			content, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(to, base), content, 0o644))
		}
	}
}

// checkpoints returns the content of a checkpoint file, wherever it is.
func checkpoints(t *testing.T, dir, name string) (content string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			b, err := os.ReadFile(path)
			content = string(b)
			return err
		}
		return err
	}))
	return content
}

func createNamed(t *testing.T, k target, name string, partitions int32, configs ...string) {
	t.Helper()
	set := map[string]*string{}
	for _, c := range configs {
		key, value, _ := strings.Cut(c, "=")
		set[key] = &value
	}
	_, err := admin(t, k).CreateTopic(within(t), partitions, 1, set, name)
	require.NoError(t, err)
}
