package txnlog

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
)

// eachGolden calls f with every record of partitions of __transaction_state that a real Kafka
// wrote.
func eachGolden(t testing.TB, f func(partition int32, r record.Record)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.log")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		partition, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), Topic+"-"), ".log"))
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err, file)
			for r, err := range b.All() {
				require.NoError(t, err, file)
				f(int32(partition), r)
			}
			p = p[n:]
		}
	}
}

func TestEveryRecordThatKafkaWroteIsUnderstoodAndWrittenAlike(t *testing.T) {
	states, clients := map[State]int{}, map[int16]int{}
	eachGolden(t, func(_ int32, kafkas record.Record) {
		r, known, err := ParseRecord(kafkas.Key, kafkas.Value)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, kafkas.Key, AppendKey(nil, r.ID))
		require.Equal(t, kafkas.Value, r.Value.AppendTo(nil, 2), "%s %+v", r.ID, r.Value)
		states[r.Value.State]++
		clients[r.Value.ClientVersion]++
		require.Equal(t, r.Value.ProducerID, r.Value.PreviousID)
		require.EqualValues(t, -1, r.Value.NextID)
		require.EqualValues(t, -1, r.Value.LastEpoch)
		require.Equal(t, r.Value.State == Empty, r.Value.StartMs == -1)
	})
	require.Equal(t, map[State]int{Empty: 9, Ongoing: 10, PrepareCommit: 5, PrepareAbort: 4, CompleteCommit: 5, CompleteAbort: 4}, states)
	require.Len(t, clients, 2)
}

func TestIdIsOwnedByThePartitionKafkaChooses(t *testing.T) {
	ids := map[string]int32{}
	eachGolden(t, func(partition int32, r record.Record) {
		rec, _, err := ParseRecord(r.Key, r.Value)
		require.NoError(t, err)
		require.Equal(t, partition, PartitionFor(rec.ID, 4), rec.ID)
		ids[rec.ID] = partition
	})
	require.EqualValues(t, 1, ids["tx-behind"], "a masked hash would say 3")
	require.Greater(t, len(ids), 3)
	require.EqualValues(t, 0, PartitionFor("polygenelubricants", 50), "the smallest int32 has no absolute value")
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	require.NoError(t, err)
	return p
}

func TestValueOfBothVersions(t *testing.T) {
	v := Value{ProducerID: 8, Epoch: 3, TimeoutMs: 60000, State: PrepareCommit, UpdateMs: 2, StartMs: 1, PreviousID: -1, NextID: -1, LastEpoch: -1,
		Partitions: []record.TopicPartition{{Topic: "a", Partition: 1}, {Topic: "a"}, {Topic: "b", Partition: 7}}}
	// version, producer id, epoch, timeout, state, partitions, times
	v0 := unhex(t, "0000"+"0000000000000008"+"0003"+"0000ea60"+"02"+
		"00000002"+"000161"+"00000002"+"00000001"+"00000000"+"000162"+"00000001"+"00000007"+"0000000000000002"+"0000000000000001")
	require.Equal(t, v0, v.AppendTo(nil, 0))
	got, err := ParseValue(v0)
	require.NoError(t, err)
	require.Equal(t, v, got)

	v.PreviousID, v.NextID, v.ClientVersion, v.LastEpoch = 7, 9, 2, 2
	v1 := unhex(t, "0001"+"0000000000000008"+"0003"+"0000ea60"+"02"+
		"03"+"0261"+"03"+"00000001"+"00000000"+"00"+"0262"+"02"+"00000007"+"00"+"0000000000000002"+"0000000000000001"+
		"04"+"0008"+"0000000000000007"+"0108"+"0000000000000009"+"0202"+"0002"+"904e02"+"0002")
	require.Equal(t, v1, v.AppendTo(nil, 1))
	require.Equal(t, v1, v.AppendTo(nil, 2))
	require.Equal(t, v1, v.AppendTo(nil, 0), "what a client of version 2 has done needs version 1")
	got, err = ParseValue(v1)
	require.NoError(t, err)
	require.Equal(t, v, got)
}

func TestEmptyHasNoPartitionsAndOthersMayHaveNone(t *testing.T) {
	for state, want := range map[State]string{Empty: "00ffffffff", CompleteAbort: "0500000000"} {
		v := Value{State: state, StartMs: -1}
		require.Equal(t, unhex(t, want), v.AppendTo(nil, 0)[16:21], "%v", state)
	}
	for state, want := range map[State]string{Empty: "0000", CompleteAbort: "0501"} {
		v := Value{State: state, StartMs: -1}
		require.Equal(t, unhex(t, want), v.AppendTo(nil, 1)[16:18], "%v", state)
	}
}

func TestRecordsThatAreNotOursAreSkippedOrRefused(t *testing.T) {
	r, known, err := ParseRecord(unhex(t, "000000026162"), nil)
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, Record{ID: "ab"}, r)

	_, known, err = ParseRecord(unhex(t, "0001000161"), unhex(t, "0000"))
	require.NoError(t, err)
	require.False(t, known, "a key of a later version")

	for _, key := range []string{"", "00", "0000", "00000002", "0000000161ff"} {
		_, _, err = ParseRecord(unhex(t, key), nil)
		require.ErrorIs(t, err, ErrMalformed, key)
	}
	v := (&Value{ProducerID: 1, State: Ongoing, Partitions: []record.TopicPartition{{Topic: "t", Partition: 1}}, PreviousID: 1}).AppendTo(nil, 2)
	for n := range v {
		_, _, err = ParseRecord(AppendKey(nil, "x"), v[:n:n])
		require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(v))
	}
	v[1] = 2
	_, err = ParseValue(v)
	require.ErrorIs(t, err, ErrMalformed, "a value of a later version")
	v[1], v[16] = 1, 7
	_, err = ParseValue(v)
	require.ErrorIs(t, err, ErrMalformed, "PrepareEpochFence is never written")
}

func TestStatesHaveKafkasNames(t *testing.T) {
	for s, name := range map[State]string{Empty: "Empty", Ongoing: "Ongoing", PrepareCommit: "PrepareCommit", PrepareAbort: "PrepareAbort",
		CompleteCommit: "CompleteCommit", CompleteAbort: "CompleteAbort", Dead: "Dead", 7: "invalid", -1: "invalid"} {
		require.Equal(t, name, s.String())
		require.Equal(t, s == PrepareCommit || s == PrepareAbort, s.Prepared())
		require.Equal(t, s == CompleteCommit || s == CompleteAbort, s.Complete())
	}
}

func drawValue(t *rapid.T) Value {
	v := Value{
		ProducerID: rapid.Int64().Draw(t, "pid"), Epoch: rapid.Int16().Draw(t, "epoch"), TimeoutMs: rapid.Int32().Draw(t, "timeout"),
		State: State(rapid.IntRange(0, int(Dead)).Draw(t, "state")), UpdateMs: rapid.Int64().Draw(t, "update"), StartMs: rapid.Int64().Draw(t, "start"),
		PreviousID: rapid.Int64().Draw(t, "previous"), NextID: rapid.Int64().Draw(t, "next"),
		ClientVersion: rapid.Int16Range(0, 3).Draw(t, "client"), LastEpoch: rapid.Int16().Draw(t, "last"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "partitions") {
		if v.State != Empty {
			v.Partitions = append(v.Partitions, record.TopicPartition{Topic: rapid.SampledFrom([]string{"a", "bb", ""}).Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "p")})
		}
	}
	return v
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, level := drawValue(t), rapid.Int16Range(0, 2).Draw(t, "level")
		got, err := ParseValue(v.AppendTo(nil, level))
		require.NoError(t, err)
		if level == 0 && v.ClientVersion == 0 {
			v.PreviousID, v.NextID, v.LastEpoch = -1, -1, -1
		}
		require.Equal(t, v, got)
	})
}

func FuzzParseRecord(f *testing.F) {
	eachGolden(f, func(_ int32, r record.Record) { f.Add(r.Key, r.Value) })
	v := Value{State: Ongoing, Partitions: []record.TopicPartition{{Topic: "t"}, {Topic: "u", Partition: 2}}, NextID: 5, LastEpoch: 3}
	f.Add(AppendKey(nil, "x"), v.AppendTo(nil, 0))
	f.Add(AppendKey(nil, "x"), v.AppendTo(nil, 1))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, known, err := ParseRecord(key, value)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		if !known || r.Value == nil {
			return
		}
		require.Equal(t, key, AppendKey(nil, r.ID))
		require.LessOrEqual(t, 4*len(r.Value.Partitions), len(value))
		again, err := ParseValue(r.Value.AppendTo(nil, int16(value[1]))) // in the version that it has
		require.NoError(t, err)
		if r.Value.State == Empty {
			r.Value.Partitions = nil // Kafka's value has none
		}
		require.Equal(t, *r.Value, again)
	})
}
