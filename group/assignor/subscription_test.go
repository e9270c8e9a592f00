package assignor

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

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
