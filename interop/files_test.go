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
	"github.com/stratalog/strata/kafkadir"
)

// These tests have Kafka's tools and a Kafka broker read Strata's files, and Strata read Kafka's.

// written is the content of partition 0 by topic: values by offset.
type written map[string]map[int64]string

// writeOneOfEverything fills topics in all ways that affect the files, and commits offsets of a
// group. It returns the readable records and the group.
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

// partitionDir returns the directory of a partition below a cluster's directory.
func partitionDir(t *testing.T, dir, name string) string {
	t.Helper()
	found := findPartition(t, dir, name)
	require.NotEmpty(t, found, "no directory %s", name)
	return found
}

// findPartition is partitionDir for a partition that may never have been written; it then returns
// "".
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
	t.Parallel()
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
	t.Parallel()
	kit := kafkaKit(t)
	k, stop := startStrata(t)
	all, group := writeOneOfEverything(t, k)
	committed, err := admin(t, k).FetchOffsets(within(t), group)
	require.NoError(t, err)
	stop()

	adopted := handOver(t, kit, k.dir)
	for topic, want := range all {
		got := readTopic(t, adopted, topic)
		require.Equal(t, len(want), len(got), topic)
		require.Equal(t, want, got, topic)
	}
	requireSameOffsets(t, adopted, group, committed)
	for topic := range all { // and it accepts records
		require.NoError(t, franz(t, adopted, kgo.DefaultProduceTopic(topic)).ProduceSync(within(t), kgo.StringRecord("next")).FirstErr())
	}
}

// requireSameOffsets waits until a group is loaded, and compares its offsets.
func requireSameOffsets(t *testing.T, k target, group string, committed kadm.OffsetResponses) {
	t.Helper()
	var again kadm.OffsetResponses
	eventually(t, "the group is loaded", func() (ok bool) {
		var err error
		again, err = admin(t, k).FetchOffsets(within(t), group)
		return err == nil
	})
	require.NotEmpty(t, committed.Sorted())
	committed.Each(func(o kadm.OffsetResponse) {
		theirs, ok := again.Lookup(o.Topic, o.Partition)
		require.True(t, ok)
		require.Equal(t, o.At, theirs.At)
	})
}

// TestWeTakeOverKafkasDirectory has Strata read a directory of a Kafka broker, record by record.
func TestWeTakeOverKafkasDirectory(t *testing.T) {
	t.Parallel()
	forms(t, []string{"stopped", "killed", "stopped 3.9.1", "killed 3.9.1"}, func(t *testing.T, form string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		end, release, _ := strings.Cut(form, " ")
		b, err := kafkaRelease(t, release).Start(ctx, t.TempDir())
		require.NoError(t, err)
		defer b.Stop()
		k := target{kind: "kafka", addr: b.Addr, dir: b.Dir}
		all, group := writeOneOfEverything(t, k)
		committed, err := admin(t, k).FetchOffsets(within(t), group)
		require.NoError(t, err)
		_, err = kafkadir.Import(ctx, kafkadir.ImportConfig{From: []string{b.Dir}, Dir: filepath.Join(t.TempDir(), "early")})
		require.ErrorIs(t, err, kafkadir.ErrInUse, "it runs")
		if end == "stopped" {
			b.Stop()
		} else {
			b.Kill()
		}
		ours := takeOver(t, b.Dir)
		for topic, want := range all {
			got := readTopic(t, ours, topic)
			for offset := range got { // a killed broker may lose the deletion of records
				if _, ok := want[offset]; !ok && end == "killed" && len(want) == 60 && offset < 40 {
					delete(got, offset)
				}
			}
			require.Equal(t, want, got, topic)
		}
		requireSameOffsets(t, ours, group, committed)
		for topic := range all { // and it accepts records
			require.NoError(t, franz(t, ours, kgo.DefaultProduceTopic(topic)).ProduceSync(within(t), kgo.StringRecord("next")).FirstErr())
		}
	})
}

// handOver has a Kafka broker take over a copy of a Strata directory, and returns the broker. dir
// stays as it is.
func handOver(t *testing.T, kit *apache.Kit, dir string, settings ...string) target {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := kafkadir.Export(ctx, kafkadir.ExportConfig{Dir: dir, To: filepath.Join(home, "log")})
	require.NoError(t, err)
	b, err := kit.Start(ctx, home, settings...)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return target{kind: "kafka", addr: b.Addr}
}
