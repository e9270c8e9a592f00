package segment

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// testdata/golden/log has partitions of an Apache Kafka 4.3 broker after a clean stop.
// golden/killed has the indexes of the same partitions after a kill, without the zeros at the end
// of their files. The .log files are in golden/log. expected.jsonl.gz has the records that Kafka's
// consumers read.

// goldenSegment is one segment of the golden data.
type goldenSegment struct {
	dir   string // topic-partition
	base  int64
	last  bool // of its partition
	files map[string][]byte
}

// goldenSegments reads the segments of golden/log, with the indexes of golden/killed, zeros
// included, instead of their own if killed.
func goldenSegments(t testing.TB, killed bool) (all []goldenSegment) {
	logs, err := filepath.Glob("testdata/golden/log/*/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for i, name := range logs {
		dir := filepath.Dir(name)
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), LogSuffix), 10, 64)
		require.NoError(t, err)
		g := goldenSegment{filepath.Base(dir), base, i+1 == len(logs) || filepath.Dir(logs[i+1]) != dir, map[string][]byte{}}
		for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix} {
			from := dir
			if killed && suffix != LogSuffix {
				from = filepath.Join("testdata/golden/killed", g.dir)
			}
			p, err := os.ReadFile(filepath.Join(from, FileName(base, suffix)))
			if os.IsNotExist(err) {
				continue
			}
			require.NoError(t, err)
			if killed && suffix != LogSuffix && suffix != TxnIndexSuffix {
				p = append(p, make([]byte, paddedSize(suffix, g.last, len(p))-len(p))...)
			}
			g.files[suffix] = p
		}
		all = append(all, g)
	}
	return all
}

// paddedSize is the size of an index file: the broker ran with segment.index.bytes=65536, and
// closed segments are trimmed.
func paddedSize(suffix string, last bool, n int) int {
	size := offsetEntrySize
	if suffix == TimeIndexSuffix {
		size = timeEntrySize
	}
	if last {
		return 65536 / size * size
	}
	return (n + size - 1) / size * size
}

// in writes the files of g to a new file system, except the files with the suffixes in without.
func (g goldenSegment) in(t testing.TB, without ...string) *vfs.MemFS {
	fsys := memFS(t)
	for suffix, p := range g.files {
		writeFile(t, fsys, filepath.Join(testDir, FileName(g.base, suffix)), p)
	}
	for _, suffix := range without {
		require.NoError(t, fsys.Remove(filepath.Join(testDir, FileName(g.base, suffix))))
	}
	return fsys
}

func (g goldenSegment) name() string { return fmt.Sprintf("%s/%d", g.dir, g.base) }

// requireIndexes compares the files in fsys with Kafka's.
func (g goldenSegment) requireIndexes(t testing.TB, fsys vfs.FS) {
	for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		p, err := vfs.ReadFile(fsys, filepath.Join(testDir, FileName(g.base, suffix)))
		require.NoError(t, err)
		require.Equal(t, g.files[suffix], p, "%s%s", g.name(), suffix)
	}
}

func TestIndexesOfKafkaAreReproducedByteForByteWhenAppending(t *testing.T) {
	t.Parallel()
	for _, g := range goldenSegments(t, false) {
		fsys := memFS(t)
		s, err := Create(testDir, g.base, Config{FS: fsys})
		require.NoError(t, err)
		for p := g.files[LogSuffix]; len(p) > 0; {
			b, err := record.ParseUnverified(p)
			require.NoError(t, err)
			require.NoError(t, s.Append([][]byte{p[:61], p[61:b.Size()]}, []BatchInfo{InfoOf(&b)}))
			p = p[b.Size():]
		}
		require.NoError(t, s.Seal())
		g.requireIndexes(t, fsys)
		require.NoError(t, s.Close())
	}
}

func TestIndexesOfKafkaAreReproducedByteForByteByRecovery(t *testing.T) {
	t.Parallel()
	for _, g := range goldenSegments(t, false) {
		fsys := g.in(t, IndexSuffix, TimeIndexSuffix)
		s, err := Open(testDir, g.base, Config{FS: fsys}, OpenOptions{})
		require.NoError(t, err)
		rep, err := s.Recover(RecoverOptions{})
		require.NoError(t, err)
		require.Zero(t, rep.CutBytes+rep.ZeroBytes)
		g.requireIndexes(t, fsys)
		require.NoError(t, s.Close())
	}
}

func TestKilledKafkaIsRecoveredToWhatItsCleanStopLeaves(t *testing.T) {
	t.Parallel()
	clean := goldenSegments(t, false)
	for i, g := range goldenSegments(t, true) {
		for _, o := range []RecoverOptions{{SameBoot: true}, {}, {SameBoot: true, Full: true}} {
			fsys := g.in(t)
			s, err := Open(testDir, g.base, Config{FS: fsys}, OpenOptions{})
			require.NoError(t, err)
			_, err = s.Recover(o)
			require.NoError(t, err, g.name())
			require.NoError(t, s.Close())
			clean[i].requireIndexes(t, fsys)
		}
	}
}

// goldenRecord is one line of expected.jsonl; bytes are in base64, as in encoding/json.
type goldenRecord struct {
	Topic     string
	Partition int
	Offset    int64
	Epoch     int32
	Time      *int64 // nil: not a record
	TimeType  string `json:"time_type"`
	Key       []byte
	Value     []byte
	Headers   [][2]*[]byte
	Start     int64
}

// expectedRecords returns the records that Kafka's consumers read, by partition and offset, and
// the start offsets of the partitions.
func expectedRecords(t testing.TB) (map[string]map[int64]goldenRecord, map[string]int64) {
	f, err := os.Open("testdata/golden/expected.jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	records, start := map[string]map[int64]goldenRecord{}, map[string]int64{}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		var e goldenRecord
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		dir := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
		if e.Time == nil {
			start[dir] = e.Start
			continue
		}
		if records[dir] == nil {
			records[dir] = map[int64]goldenRecord{}
		}
		records[dir][e.Offset] = e
	}
	return records, start
}

func (e goldenRecord) require(t testing.TB, r record.Record, name string) {
	require.Equal(t, *e.Time, r.Timestamp.UnixMilli(), name)
	require.Equal(t, e.Epoch, r.LeaderEpoch, name)
	require.Equal(t, e.Key, r.Key, name)
	require.Equal(t, e.Value, r.Value, name)
	require.Equal(t, e.TimeType == "LogAppendTime", r.TimestampType == record.LogAppendTime, name)
	require.Len(t, r.Headers, len(e.Headers), name)
	for i, h := range e.Headers {
		require.Equal(t, string(*h[0]), r.Headers[i].Key, name)
		if h[1] == nil {
			require.Nil(t, r.Headers[i].Value, name)
		} else {
			require.Equal(t, *h[1], append([]byte{}, r.Headers[i].Value...), name)
		}
	}
}

func TestSegmentsOfKafkaHoldWhatItsConsumersReadAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		expected, start := expectedRecords(t)
		compared := 0
		for _, g := range goldenSegments(t, killed) {
			s, err := Open(testDir, g.base, Config{FS: g.in(t)}, OpenOptions{Clean: !killed, NextOffset: -1, Size: -1})
			require.NoError(t, err, g.name())
			if killed {
				_, err = s.Recover(RecoverOptions{SameBoot: true})
				require.NoError(t, err, g.name())
			}
			for b, err := range s.Batches(g.base) {
				require.NoError(t, err, g.name())
				if b.IsControl() {
					continue
				}
				for r, err := range b.All() {
					require.NoError(t, err, g.name())
					if r.Offset < start[g.dir] || strings.HasPrefix(g.dir, "__") {
						continue
					}
					e, ok := expected[g.dir][r.Offset]
					require.True(t, ok, "%s offset %d: a consumer does not see it", g.name(), r.Offset)
					e.require(t, r, g.name())
					delete(expected[g.dir], r.Offset)
					compared++
				}
			}
			require.NoError(t, s.Close())
		}
		for dir, left := range expected {
			require.Empty(t, left, "%s: records that a consumer sees and we do not", dir)
		}
		require.Equal(t, 1937, compared)
	}
}

func TestTransactionIndexOfKafkaIsRead(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, g := range goldenSegments(t, false) {
		s, err := Open(testDir, g.base, Config{FS: g.in(t)}, OpenOptions{Clean: true, NextOffset: -1, Size: -1})
		require.NoError(t, err)
		aborted, _, err := s.Aborted(g.base, s.NextOffset())
		require.NoError(t, err)
		require.Len(t, aborted, len(g.files[TxnIndexSuffix])/abortedTxnSize)
		for _, a := range aborted {
			seen++
			p, err := s.ReadAt(nil, a.LastOffset, 1, -1)
			require.NoError(t, err)
			b, err := record.ParseUnverified(p)
			require.NoError(t, err)
			kind, _, err := b.Control()
			require.NoError(t, err)
			require.Equal(t, record.ControlAbort, kind, g.name())
			require.Equal(t, a.ProducerID, b.ProducerID)
			require.Equal(t, a.LastOffset, b.BaseOffset)
			require.LessOrEqual(t, a.FirstOffset, a.LastOffset)
		}
		require.NoError(t, s.ResetAborted(0, aborted, true))
		p, _ := vfs.ReadFile(s.cfg.FS, filepath.Join(testDir, FileName(g.base, TxnIndexSuffix)))
		require.Equal(t, g.files[TxnIndexSuffix], p, g.name())
		require.NoError(t, s.Close())
	}
	require.Equal(t, 7, seen)
}
