package group

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
)

func tps(topic string, partitions ...int32) []record.TopicPartition {
	var out []record.TopicPartition
	for _, p := range partitions {
		out = append(out, record.TopicPartition{Topic: topic, Partition: p})
	}
	return out
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	require.NoError(t, err)
	return p
}

// The hexadecimal strings were written by Kafka's own serializers.

func TestSubscriptionIsWrittenAsTheJavaClientWritesIt(t *testing.T) {
	s := Subscription{Topics: []string{"t1"}, Owned: tps("t1", 1, 0), Generation: 5}
	golden := unhex(t, "00030000000100027431ffffffff000000010002743100000002000000000000000100000005ffff")
	require.Equal(t, golden, s.AppendTo(nil))
	got, err := ParseSubscription(golden)
	require.NoError(t, err)
	require.Equal(t, Subscription{Version: 3, Topics: []string{"t1"}, Owned: tps("t1", 0, 1), Generation: 5}, got)
}

func TestAssignmentIsWrittenAsTheJavaClientWritesIt(t *testing.T) {
	golden := unhex(t, "000300000001000274310000000100000000ffffffff")
	require.Equal(t, golden, Assignment{Partitions: tps("t1", 0)}.AppendTo(nil))
	got, err := ParseAssignment(golden)
	require.NoError(t, err)
	require.Equal(t, Assignment{Version: 3, Partitions: tps("t1", 0)}, got)
}

func TestEmptyBytesAreAnEmptyAssignment(t *testing.T) {
	got, err := ParseAssignment(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestSubscriptionOfALaterVersionIsReadAsVersion3(t *testing.T) {
	p := Subscription{Topics: []string{"a"}, Rack: "r1", Generation: 7}.AppendTo(nil)
	p[1] = 9
	got, err := ParseSubscription(append(p, 1, 2, 3))
	require.NoError(t, err)
	require.Equal(t, "r1", got.Rack)
	require.EqualValues(t, 9, got.Version)
	p[1] = 0 // only the fields of version 0
	got, err = ParseSubscription(p)
	require.NoError(t, err)
	require.Equal(t, Subscription{Topics: []string{"a"}, Generation: -1}, got)
}

func TestKeysAndOffsetValuesAreThoseOfKafka(t *testing.T) {
	key := Key{Type: KeyOffset, Group: "g", Topic: "t1"}
	require.Equal(t, unhex(t, "00010001670002743100000000"), key.AppendTo(nil))
	require.Equal(t, unhex(t, "0002000167"), Key{Type: KeyGroup, Group: "g"}.AppendTo(nil))
	k, ok, err := ParseKey(unhex(t, "00010001670002743100000000"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, key, k)
	k, _, err = ParseKey(unhex(t, "00000001670002743100000000")) // the older type
	require.NoError(t, err)
	require.Equal(t, key, k)

	v3 := unhex(t, "0003000000000000002a0000000700016d00000000000003e8")
	v, err := ParseOffsetValue(v3)
	require.NoError(t, err)
	want := OffsetValue{Offset: 42, LeaderEpoch: 7, Metadata: "m", CommitMs: 1000, ExpireMs: -1}
	require.Equal(t, want, v)

	v4 := unhex(t, "0004000000000000002a00000007026d00000000000003e80100100102030405060708090a0b0c0d0e0f10")
	v, err = ParseOffsetValue(v4)
	require.NoError(t, err)
	want.TopicID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	require.Equal(t, want, v)
	require.Equal(t, v4, v.AppendTo(nil))
}

func TestOffsetValueWithExplicitExpiryIsVersion1(t *testing.T) {
	p := OffsetValue{Offset: 3, LeaderEpoch: 9, Metadata: "x", CommitMs: 5, ExpireMs: 8}.AppendTo(nil)
	require.Equal(t, unhex(t, "000100000000000000030001780000000000000005"+"0000000000000008"), p)
	v, err := ParseOffsetValue(p)
	require.NoError(t, err)
	require.Equal(t, OffsetValue{Offset: 3, LeaderEpoch: -1, Metadata: "x", CommitMs: 5, ExpireMs: 8}, v)
}

func TestGroupValueOfEveryVersionIsRead(t *testing.T) {
	member := "00026d31" + "%s" + "000163" + "000168" // member id, [instance id], client id, host
	for version, body := range map[string]string{
		"0000": "0001700000000300017200026d31" + "00000001" + strings.ReplaceAll(member, "%s", "") + "00000064" + "0000000101" + "0000000102",
		"0001": "0001700000000300017200026d31" + "00000001" + strings.ReplaceAll(member, "%s", "") + "000000c8" + "00000064" + "0000000101" + "0000000102",
		"0002": "0001700000000300017200026d31" + "000000000000000a" + "00000001" + strings.ReplaceAll(member, "%s", "") + "000000c8" + "00000064" + "0000000101" + "0000000102",
		"0003": "0001700000000300017200026d31" + "000000000000000a" + "00000001" + strings.ReplaceAll(member, "%s", "000169") + "000000c8" + "00000064" + "0000000101" + "0000000102",
		"0004": "02700000000302720" + "36d31" + "000000000000000a" + "02" + "036d31" + "0269" + "0263" + "0268" + "000000c8" + "00000064" + "0201" + "0202" + "00" + "00",
	} {
		t.Run(version, func(t *testing.T) {
			got, err := ParseGroupValue(unhex(t, version+body))
			require.NoError(t, err)
			want := GroupValue{ProtocolType: "p", Generation: 3, Protocol: "r", Leader: "m1", StateMs: -1,
				Members: []MemberValue{{ID: "m1", ClientID: "c", ClientHost: "h", RebalanceTimeoutMs: 100, SessionTimeoutMs: 100, Subscription: []byte{1}, Assignment: []byte{2}}}}
			if version >= "0001" {
				want.Members[0].RebalanceTimeoutMs = 200
			}
			if version >= "0002" {
				want.StateMs = 10
			}
			if version >= "0003" {
				want.Members[0].InstanceID = "i"
			}
			require.Equal(t, want, got)
		})
	}
}

func TestGroupIsOwnedByThePartitionKafkaChooses(t *testing.T) {
	for group, want := range map[string]int32{"g": 3, "my-group": 12, "console-consumer": 40, "": 0, "polygenelubricants": 0} { // the last hashes to the smallest int32
		require.Equal(t, want, PartitionFor(group, 50), group)
	}
	require.Equal(t, int32(0), PartitionFor("x", 1))
	require.Equal(t, (31*0xd83d+0xde00)%50, int(PartitionFor("😀", 50))) // surrogates count as two
}

// kafkaRecords calls f with every record of the offsets topic that a real Kafka wrote.
func kafkaRecords(t testing.TB, f func(b *record.Batch, r record.Record)) {
	files, err := filepath.Glob("testdata/kafka/*.log")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				f(b, r)
			}
			p = p[n:]
		}
	}
}

func TestEveryRecordThatKafkaWroteIsUnderstood(t *testing.T) {
	seen := map[KeyType]int{}
	kafkaRecords(t, func(b *record.Batch, r record.Record) {
		if b.IsControl() {
			return
		}
		k, ok, err := ParseKey(r.Key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, r.Key, k.AppendTo(nil))
		seen[k.Type]++
		if r.Value == nil {
			return
		}
		v, err := ParseValue(k.Type, r.Value)
		require.NoError(t, err, "key type %d", k.Type)
		switch v := v.(type) {
		case *OffsetValue:
			require.Equal(t, "grouped", k.Topic)
			if !b.IsTransactional() {
				require.Equal(t, r.Value, v.AppendTo(nil))
			}
		case *GroupValue:
			require.Equal(t, r.Value, v.AppendTo(nil))
			for _, m := range v.Members {
				s, err := ParseSubscription(m.Subscription)
				require.NoError(t, err)
				require.Equal(t, []string{"grouped"}, s.Topics)
				require.Equal(t, m.Subscription, s.AppendTo(nil))
				a, err := ParseAssignment(m.Assignment)
				require.NoError(t, err)
				require.Equal(t, m.Assignment, a.AppendTo(nil))
			}
		case *ConsumerMemberValue:
			require.Equal(t, []string{"grouped"}, v.Topics)
		}
	})
	for _, typ := range []KeyType{KeyOffset, KeyGroup, KeyConsumerGroup, KeyConsumerMember, KeyTargetAssignment, KeyTargetAssignmentMember, KeyCurrentAssignmentOfMember} {
		require.NotZero(t, seen[typ], "key type %d", typ)
	}
	t.Log(seen)
}

func genTPs(t *rapid.T, label string) []record.TopicPartition {
	set := rapid.MapOf(rapid.Custom(func(t *rapid.T) record.TopicPartition {
		return record.TopicPartition{Topic: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "topic"), Partition: rapid.Int32Range(0, 5).Draw(t, "p")}
	}), rapid.Just(true)).Draw(t, label)
	var out []record.TopicPartition
	for tp := range set {
		out = append(out, tp)
	}
	sortPartitions(out)
	return out
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Subscription{Version: 3, Topics: []string{}, UserData: rapid.SliceOf(rapid.Byte()).Draw(t, "data"), Owned: genTPs(t, "owned"),
			Generation: rapid.Int32().Draw(t, "generation"), Rack: rapid.String().Draw(t, "rack")}
		got, err := ParseSubscription(s.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, s, got)

		v := GroupValue{ProtocolType: rapid.String().Draw(t, "type"), Generation: rapid.Int32().Draw(t, "g"), Protocol: rapid.String().Draw(t, "protocol"), StateMs: time.Now().UnixMilli(),
			Members: []MemberValue{{ID: rapid.String().Draw(t, "id"), InstanceID: rapid.String().Draw(t, "instance"), Subscription: []byte{}, Assignment: []byte{1}}}}
		gv, err := ParseGroupValue(v.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, v, gv)

		o := OffsetValue{Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: rapid.Int32().Draw(t, "epoch"), Metadata: rapid.String().Draw(t, "metadata"), CommitMs: 1, ExpireMs: -1}
		ov, err := ParseOffsetValue(o.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, o, ov)
	})
}

func FuzzParseSubscription(f *testing.F) {
	f.Add(Subscription{Topics: []string{"a", "b"}, Owned: tps("a", 1, 2), UserData: []byte{1}, Generation: 3, Rack: "r"}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, err := ParseSubscription(p); err == nil && s.Version >= 3 {
			again, err := ParseSubscription(s.AppendTo(nil))
			require.NoError(t, err)
			require.ElementsMatch(t, s.Topics, again.Topics)
		}
		if a, err := ParseAssignment(p); err == nil {
			again, err := ParseAssignment(a.AppendTo(nil))
			require.NoError(t, err)
			require.ElementsMatch(t, a.Partitions, again.Partitions)
		}
		lastAssignment(&Member{Subscription: Subscription{UserData: p}})
	})
}

func FuzzParseRecord(f *testing.F) {
	kafkaRecords(f, func(b *record.Batch, r record.Record) {
		if !b.IsControl() {
			f.Add(r.Key, r.Value)
		}
	})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		k, ok, err := ParseKey(key)
		if !ok || err != nil {
			return
		}
		again, _, err := ParseKey(k.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, k, again)
		v, err := ParseValue(k.Type, value)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		if v, ok := v.(*OffsetValue); ok && v.ExpireMs < 0 {
			back, err := ParseOffsetValue(v.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, *v, back)
		}
	})
}
