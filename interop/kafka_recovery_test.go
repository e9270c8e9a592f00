package interop

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/log"
)

// recordsOf reads a log's records, by offset.
func recordsOf(t *testing.T, l *log.Log) map[int64]string {
	t.Helper()
	got := map[int64]string{}
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		got[r.Offset] = fmt.Sprintf("%s=%s", r.Key, r.Value)
	}
	return got
}

// A directory of Kafka's with a compacted topic, killed while the cleaner runs, opens in Strata
// with every segment and every record. So does each later open. Kafka's dump tool reads the closed
// log without errors.
func TestKilledKafkaDirectoryWithCompactedTopicsOpensWhole(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	b, err := kit.Start(ctx, t.TempDir(), "log.cleaner.backoff.ms=100")
	require.NoError(t, err)
	defer b.Stop()
	k := target{kind: "kafka", addr: b.Addr, dir: b.Dir}
	topic := newTopic(t, k, 1, "cleanup.policy=compact", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01")
	write := func(from, n int) {
		p := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
		for i := from; i < from+n; i++ {
			key := "hot"
			if i%5 == 0 {
				key = fmt.Sprintf("cold%d", i) // survives compaction
			}
			r := &kgo.Record{Key: []byte(key), Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 250_000))}
			require.NoError(t, p.ProduceSync(within(t), r).FirstErr())
		}
	}
	write(0, 60)
	dir := partitionDir(t, b.Dir, topic+"-0") // created some time after the topic
	segments := func() []string {
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		require.NoError(t, err)
		return logs
	}
	eventually(t, "the cleaner has left gaps", func() bool { return gaps(readTopic(t, k, topic)) > 3 })
	write(60, 20)
	require.Greater(t, len(segments()), 3)
	want := map[int64]string{}
	for offset, text := range readTopic(t, k, topic) {
		want[offset], _, _ = strings.Cut(text, " [")
	}
	b.Kill()
	files := len(segments())

	for range 2 {
		d, err := log.OpenDirectory(b.Dir, log.DirectoryConfig{})
		require.NoError(t, err)
		l, err := log.Open(dir, log.Config{Dir: d})
		require.NoError(t, err)
		require.Len(t, l.Segments(), files, "every segment is there")
		require.Empty(t, l.Recovery().SetAside)
		got := recordsOf(t, l)
		// Records that the cleaner has removed since may be missing.
		for offset, value := range want {
			if have, ok := got[offset]; ok {
				require.Equal(t, value, have, "offset %d", offset)
			}
		}
		require.Subset(t, slices.Collect(maps.Values(got)), lastOfEach(want), "the last value of each key")
		require.NoError(t, l.Close())
		require.NoError(t, d.Close())
	}
	out := run(t, kit.Tool(within(t), "dump-log", "--deep-iteration", "--files", strings.Join(segments(), ",")))
	require.NotRegexp(t, `(?i)isvalid: false|corrupt|exception|not valid`, out)
	require.Regexp(t, `(?i)isvalid: true`, out)
}

// gaps counts the places where offsets are missing.
func gaps(records map[int64]string) (n int) {
	offsets := slices.Sorted(maps.Keys(records))
	for i := 1; i < len(offsets); i++ {
		if offsets[i] != offsets[i-1]+1 {
			n++
		}
	}
	return n
}

// lastOfEach returns the last "key=value" of each key.
func lastOfEach(records map[int64]string) []string {
	last := map[string]string{}
	for _, offset := range slices.Sorted(maps.Keys(records)) {
		key, _, _ := strings.Cut(records[offset], "=")
		last[key] = records[offset]
	}
	return slices.Collect(maps.Values(last))
}
