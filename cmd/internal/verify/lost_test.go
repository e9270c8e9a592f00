package verify

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A damaged or missing end of a log is one finding. State, snapshots and checkpoints ahead of the
// last good batch add no others. The finding has the lost offsets. A note has the command that
// gives the records up, and the command works.
func TestDamagedBatchIsOneFindingWithTheLostOffsetsAndTheWayOut(t *testing.T) {
	const dir = "/data/broker-1/orders-0"
	for name, c := range map[string]struct {
		change func(t *testing.T, log []byte) []byte
		lost   string
	}{
		"flipped in the middle": {flipAt(-120), "; offset 198 is lost"},
		"flipped at the end":    {flipAt(-5), "; offset 199 is lost"},
		"cut in the last batch": {cutAt(1, 20), "too few for a batch; the file has 3"},
		"cut where one ends":    {cutAt(2, 0), "; offsets 198..199 are lost"},
		"cut in its header":     {cutAt(3, 70), "; offsets 197..199 are lost"},
		"zeros":                 {zerosFrom(2), "zeros; offsets 198..199 are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			m := strataDirectory(t)
			logs := slices.DeleteFunc(files(t, m, dir), func(f string) bool { return !strings.HasSuffix(f, ".log") })
			last := slices.Max(logs)
			write(t, m, last, c.change(t, read(t, m, last)))
			_, fs := check(t, m, "/data")
			require.Len(t, damages(fs), 1, "%v", fs)
			require.Equal(t, last, damages(fs)[0].Path)
			require.Contains(t, damages(fs)[0].Text, c.lost)
		})
	}
}

// The note of a damaged batch has the command that gives its records up. After it, the partition
// accepts records, and the directory is good, also after another stop.
func TestNoteOfADamagedBatchNamesAWayOutThatWorks(t *testing.T) {
	for name, tt := range map[string]struct {
		topic, segment string
		change         func(*testing.T, []byte) []byte
		killed         bool
		text           string
	}{
		"batch in a closed segment":      {"orders", "00000000000000000100", flipAt(-5), false, "strata topics delete-records orders --partition 0 --before 150"},
		"the same after a kill":          {"orders", "00000000000000000100", flipAt(-5), true, "strata topics delete-records orders --partition 0 --before 150"},
		"last batch":                     {"orders", "00000000000000000150", flipAt(-5), false, "strata topics delete-records orders --partition 0 --before 200"},
		"length of the last batch":       {"orders", "00000000000000000150", flipBatch(1, 26), false, "; if appends fail then, give up all records of the topic: strata topics delete orders"},
		"batch before, after a kill":     {"orders", "00000000000000000200", func(_ *testing.T, b []byte) []byte { b[20] ^= 4; return b }, true, "with neither, give up all records of the topic: strata topics delete orders"},
		"end of the last segment":        {"orders", "00000000000000000150", cutAt(1, 20), false, "with neither, give up all records of the topic: strata topics delete orders"},
		"zeros at the end":               {"orders", "00000000000000000150", zerosFrom(2), false, "with neither, give up all records of the topic: strata topics delete orders"},
		"internal topic":                 {"__consumer_offsets", "00000000000000000000", flipAt(-5), false, "remove this directory and strata.partitions beside it"},
		"end of an internal topic's log": {"__consumer_offsets", "00000000000000000000", cutAt(1, 20), false, "remove this directory and strata.partitions beside it"},
	} {
		t.Run(name, func(t *testing.T) {
			closed, killed := strataDirectories(t)
			m := closed
			if tt.killed {
				m = killed
			}
			dir := "/data/broker-1/" + tt.topic + "-0"
			segment := dir + "/" + tt.segment + ".log"
			write(t, m, segment, tt.change(t, read(t, m, segment)))
			_, fs := check(t, m, "/data")
			i := slices.IndexFunc(fs, func(f Finding) bool { return strings.HasPrefix(f.Text, "what helps") })
			require.GreaterOrEqual(t, i, 0, "%v", fs)
			require.Contains(t, fs[i].Text, tt.text)
			if strings.HasPrefix(tt.text, "remove") {
				require.NoError(t, m.RemoveAll(dir))
				require.NoError(t, m.Remove("/data/broker-1/strata.partitions"))
			}
			c, err := strata.Open(strata.Config{Dir: "/data", FS: m})
			require.NoError(t, err)
			tp := record.TopicPartition{Topic: tt.topic}
			if _, rest, ok := strings.Cut(tt.text, "--before "); ok {
				before, err := strconv.ParseInt(rest, 10, 64)
				require.NoError(t, err)
				_, err = c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp: before})
				require.NoError(t, err)
			} else if strings.HasSuffix(tt.text, "topics delete orders") {
				require.NoError(t, c.DeleteTopic(t.Context(), tt.topic))
				require.NoError(t, c.CreateTopic(t.Context(), tt.topic, topic.Config{Partitions: 2}))
			}
			appends := func(c *strata.Cluster) {
				t.Helper()
				if tt.topic != "orders" {
					require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{{Topic: "orders"}: 1}))
					return
				}
				p, err := producer.New(c, producer.Config{})
				require.NoError(t, err)
				_, err = p.Send(t.Context(), record.String("orders", "k", "v").To(0))
				require.NoError(t, err)
				require.NoError(t, p.Close())
			}
			appends(c)
			left := m.Kill()
			require.NoError(t, c.Close())
			for _, m := range []*vfs.MemFS{m, left} {
				_, fs = check(t, m, "/data")
				require.Empty(t, damages(fs))
				c, err := strata.Open(strata.Config{Dir: "/data", FS: m})
				require.NoError(t, err)
				appends(c)
				require.NoError(t, c.Close())
			}
		})
	}
}

// strataDirectories returns the directory of strataDirectory with a committed offset, after an
// orderly stop, and after a kill with three more records in orders-0.
func strataDirectories(t *testing.T) (closed, killed *vfs.MemFS) {
	m := strataDirectory(t)
	c, err := strata.Open(strata.Config{Dir: "/data", FS: m, Group: group.Config{OffsetsPartitions: 1}})
	require.NoError(t, err)
	require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{{Topic: "orders"}: 1}))
	require.NoError(t, c.Close())
	closed = m.Kill()
	c, err = strata.Open(strata.Config{Dir: "/data", FS: m})
	require.NoError(t, err)
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for range 3 {
		_, err = p.Send(t.Context(), record.String("orders", "k", "v").To(0))
		require.NoError(t, err)
	}
	killed = m.Kill()
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	return closed, killed
}

func flipAt(fromEnd int) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, b []byte) []byte {
		b[len(b)+fromEnd] ^= 1
		return b
	}
}

// flipBatch flips a bit in a batch: in the byte at offset at of the n-th batch from the end.
func flipBatch(n, at int) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte {
		b[batchFromEnd(t, b, n)+at] ^= 4
		return b
	}
}

// cutAt cuts a segment before its last n batches, and keeps k more bytes.
func cutAt(n, k int) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte { return b[:batchFromEnd(t, b, n)+k] }
}

// zerosFrom overwrites the last n batches with zeros.
func zerosFrom(n int) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte {
		clear(b[batchFromEnd(t, b, n):])
		return b
	}
}

// batchFromEnd returns the position of the n-th batch from the end.
func batchFromEnd(t *testing.T, b []byte, n int) int {
	var at []int
	for pos := 0; pos < len(b); {
		h, err := record.ParseHeader(b[pos:])
		require.NoError(t, err)
		at = append(at, pos)
		pos += int(h.Length) + record.LogOverhead
	}
	return at[len(at)-n]
}
