package record

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testdata/kafka has segments that Apache Kafka 4.3 wrote, some truncated after a few batches, and
// the records that Kafka's consumer read from them.

// An expectedRecord is one line of expected.jsonl; bytes are in base64, as in encoding/json; null
// is nil.
type expectedRecord struct {
	Topic     string
	Partition int32
	Offset    int64
	Epoch     int32
	Time      int64
	TimeType  string `json:"time_type"`
	Key       []byte
	Value     []byte
	Headers   [][2]*[]byte
	Committed bool
}

func (e expectedRecord) record() Record {
	r := Record{Offset: e.Offset, LeaderEpoch: e.Epoch, Key: e.Key, Value: e.Value}
	if e.TimeType == "LogAppendTime" {
		r.TimestampType = LogAppendTime
	}
	for _, h := range e.Headers {
		var v []byte
		if h[1] != nil {
			v = *h[1]
		}
		r.Headers = append(r.Headers, Header{string(*h[0]), v})
	}
	return r
}

// kafkaBatches returns the batches of Kafka's segments by partition directory.
func kafkaBatches(t testing.TB) map[string][]*Batch {
	files, err := filepath.Glob("testdata/kafka/*/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string][]*Batch{}
	for _, f := range files {
		p, err := os.ReadFile(f)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := Parse(p)
			require.NoError(t, err, f)
			out[filepath.Base(filepath.Dir(f))] = append(out[filepath.Base(filepath.Dir(f))], b)
			p = p[n:]
		}
	}
	return out
}

func TestSegmentsOfKafkaHoldWhatItsConsumerReads(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/kafka/expected.jsonl")
	require.NoError(t, err)
	defer f.Close()
	expected := map[string]map[int64]expectedRecord{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e expectedRecord
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		dir := e.Topic + "-" + strconv.Itoa(int(e.Partition))
		if expected[dir] == nil {
			expected[dir] = map[int64]expectedRecord{}
		}
		expected[dir][e.Offset] = e
	}
	seen := map[Codec]bool{}
	for dir, batches := range kafkaBatches(t) {
		for _, b := range batches {
			if b.IsControl() {
				continue
			}
			seen[b.Codec()] = true
			for r, err := range b.All() {
				require.NoError(t, err, dir)
				e, ok := expected[dir][r.Offset]
				require.True(t, ok, "%s offset %d: a consumer does not see it", dir, r.Offset)
				require.Equal(t, e.Time, r.Timestamp.UnixMilli())
				want := e.record()
				want.Timestamp = r.Timestamp
				require.Equal(t, want, r, dir)
				delete(expected[dir], r.Offset)
			}
		}
		require.Empty(t, expected[dir], "%s: records that a consumer sees and we do not", dir)
	}
	require.Len(t, seen, 5, "codecs")
}

// Java's batches without compression are rebuilt byte for byte from their records.
func TestUncompressedBatchesOfKafkaAreRebuiltByteForByte(t *testing.T) {
	t.Parallel()
	rebuilt := 0
	for dir, batches := range kafkaBatches(t) {
		for _, b := range batches {
			if b.Codec() != None || b.IsControl() || b.TimestampType() == LogAppendTime || strings.HasPrefix(dir, "compacted") {
				continue
			}
			var bld Builder
			bld.SetBaseOffset(b.BaseOffset)
			bld.SetLeaderEpoch(b.LeaderEpoch)
			bld.SetProducer(b.ProducerID, b.ProducerEpoch, b.BaseSequence)
			bld.SetTransactional(b.IsTransactional())
			for r, err := range b.All() {
				require.NoError(t, err)
				require.True(t, bld.Append(&r))
			}
			require.Equal(t, b.Bytes(), bld.Bytes(), "%s offset %d", dir, b.BaseOffset)
			rebuilt++
		}
	}
	require.NotZero(t, rebuilt)
}
