package offsets

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/kafkatopic"
	"github.com/stratalog/strata/record"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	require.NoError(t, err)
	return p
}

// The hexadecimal strings were written by Kafka's own serializers.

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
	// the last hashes to the smallest int32
	for group, want := range map[string]int32{"g": 3, "my-group": 12, "console-consumer": 40, "": 0, "polygenelubricants": 0} {
		require.Equal(t, want, PartitionFor(group, 50), group)
	}
	require.Equal(t, int32(0), PartitionFor("x", 1))
	require.Equal(t, (31*0xd83d+0xde00)%50, int(PartitionFor("😀", 50))) // surrogates count as two
}

func TestEveryRecordThatKafkaWroteIsUnderstood(t *testing.T) {
	seen := map[KeyType]int{}
	kafkatopic.Each(t, func(b *record.Batch, r record.Record) {
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
				s, err := assignor.ParseSubscription(m.Subscription)
				require.NoError(t, err)
				require.Equal(t, []string{"grouped"}, s.Topics)
				require.Equal(t, m.Subscription, s.AppendTo(nil))
				a, err := assignor.ParseAssignment(m.Assignment)
				require.NoError(t, err)
				require.Equal(t, m.Assignment, a.AppendTo(nil))
			}
		case *ConsumerMemberValue:
			require.Equal(t, []string{"grouped"}, v.Topics)
			require.Equal(t, r.Value, v.AppendTo(nil))
		case Value:
			require.Equal(t, r.Value, v.AppendTo(nil), "key type %d", k.Type)
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
	slices.SortFunc(out, func(a, b record.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := assignor.Subscription{Version: 3, Topics: []string{}, UserData: rapid.SliceOf(rapid.Byte()).Draw(t, "data"), Owned: genTPs(t, "owned"),
			Generation: rapid.Int32().Draw(t, "generation"), Rack: rapid.String().Draw(t, "rack")}
		got, err := assignor.ParseSubscription(s.AppendTo(nil))
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

func FuzzParseRecord(f *testing.F) {
	kafkatopic.Each(f, func(b *record.Batch, r record.Record) {
		if !b.IsControl() {
			f.Add(r.Key, r.Value)
		}
	})
	shareRecords(f, func(r record.Record) { f.Add(r.Key, r.Value) })
	streamsRecords(f, func(r record.Record) { f.Add(r.Key, r.Value) })
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
		if v, ok := v.(Value); ok && k.Type != KeyOffset && k.Type != KeyGroup {
			back, err := ParseValue(k.Type, v.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, v, back)
		}
		if v, ok := v.(*OffsetValue); ok && v.ExpireMs < 0 {
			back, err := ParseOffsetValue(v.AppendTo(nil))
			require.NoError(t, err)
			require.Equal(t, *v, back)
		}
	})
}
