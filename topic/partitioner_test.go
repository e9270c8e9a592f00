package topic

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func keyed(key string) record.Record { return record.Record{Topic: "t", Key: []byte(key)} }

func keyless() record.Record { return record.Record{Topic: "t", Value: []byte("v")} }

func TestHashPlacesKeysAsTheJavaClientDoes(t *testing.T) {
	for key, want := range map[string][2]int{ // of 3 and of 10 partitions, from Kafka's own classes
		"": {0, 1}, "a": {1, 4}, "21": {0, 0}, "abc": {0, 7}, "foobar": {0, 6}, "key": {1, 1}, "kafka": {1, 0},
		"a-little-bit-long-string": {2, 2}, "a-little-bit-longer-string": {2, 9}, "\x00": {2, 8}, "\xff\xff\xff": {0, 2},
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": {2, 7},
	} {
		for _, p := range []Partitioner{Hash(), Default(), Sticky()} {
			require.Equal(t, want[0], p.Partition(keyed(key), 3), "%q", key)
			require.Equal(t, want[1], p.Partition(keyed(key), 10), "%q", key)
		}
	}
}

func TestDefaultGivesKeylessRecordsInTurnButHashesTheEmptyKey(t *testing.T) {
	p := Default()
	first := p.Partition(keyless(), 4)
	for i := 1; i < 9; i++ {
		require.Equal(t, 0, p.Partition(keyed(""), 3))
		require.Equal(t, (first+i)%4, p.Partition(keyless(), 4))
	}
}

func TestRoundRobinHasATurnForEachTopicAndIgnoresKeys(t *testing.T) {
	p := RoundRobin()
	a, b := record.Record{Topic: "a"}, record.Record{Topic: "b", Key: []byte("k")}
	fa, fb := p.Partition(a, 3), p.Partition(b, 3)
	for i := 1; i < 7; i++ {
		require.Equal(t, (fa+i)%3, p.Partition(a, 3))
		require.Equal(t, (fb+i)%3, p.Partition(b, 3))
	}
}

func TestManualTakesTheRecordsPartition(t *testing.T) {
	require.Equal(t, 5, Manual().Partition(record.Record{Partition: 5}, 10))
	require.Equal(t, 0, Manual().Partition(record.Record{}, 10))
}

func TestRangeFollowsTheOrderOfKeys(t *testing.T) {
	p := Range([]byte("t"), []byte("g"), []byte("g")) // any order; duplicates do no harm
	for key, want := range map[string]int{"": 0, "a": 0, "fzzz": 0, "g": 1, "h": 1, "szz": 1, "t": 2, "z": 2} {
		require.Equal(t, want, p.Partition(keyed(key), 3), key)
	}
	require.Equal(t, 0, p.Partition(keyless(), 3), "no key sorts lowest")
	require.Equal(t, Refuse, p.Partition(keyed("z"), 2), "a range without a partition")
}

func TestRangeOrdersEncodedNumbers(t *testing.T) {
	p := Range([]byte{0x80, 0, 0, 100}, []byte{0x80, 0, 1, 0}) // big endian with the sign flipped
	require.Equal(t, 0, p.Partition(record.Record{Key: []byte{0x7f, 0xff, 0xff, 0xff}}, 3))
	require.Equal(t, 1, p.Partition(record.Record{Key: []byte{0x80, 0, 0, 100}}, 3))
	require.Equal(t, 2, p.Partition(record.Record{Key: []byte{0x80, 0, 1, 1}}, 3))
}

func TestListLooksKeysUp(t *testing.T) {
	values := map[string]int{"de": 0, "fr": 1, "far": 9, "bad": -3}
	p := List(values, nil)
	values["de"] = 2 // the table was copied
	require.Equal(t, 0, p.Partition(keyed("de"), 3))
	require.Equal(t, 1, p.Partition(keyed("fr"), 3))
	require.Equal(t, Refuse, p.Partition(keyed("far"), 3))
	require.Equal(t, Refuse, p.Partition(keyed("bad"), 3))
	require.Equal(t, Refuse, p.Partition(keyed("it"), 3))
	require.Equal(t, 2, List(values, PartitionerFunc(func(record.Record, int) int { return 2 })).Partition(keyed("it"), 3))
}

func TestListDoesNotTakeNoKeyForTheEmptyKey(t *testing.T) {
	require.Equal(t, Refuse, List(map[string]int{"": 1}, nil).Partition(keyless(), 3))
	require.Equal(t, 1, List(map[string]int{"": 1}, nil).Partition(keyed(""), 3))
}

func TestCompositePicksABlockAndThenAPlaceInIt(t *testing.T) {
	tenant := List(map[string]int{"a": 0, "b": 1, "c": 2, "d": 3}, nil)
	last := PartitionerFunc(func(_ record.Record, n int) int { return n - 1 })
	p := Composite(tenant, 3, last)
	require.Equal(t, 2, p.Partition(keyed("a"), 8))
	require.Equal(t, 5, p.Partition(keyed("b"), 8))
	require.Equal(t, 7, p.Partition(keyed("c"), 8), "the last block holds the rest")
	require.Equal(t, Refuse, p.Partition(keyed("d"), 8), "no such block")
	require.Equal(t, Refuse, Composite(Hash(), 2, PartitionerFunc(func(_ record.Record, n int) int { return n })).Partition(keyed("a"), 8))
	require.Equal(t, 3, Composite(PartitionerFunc(func(_ record.Record, n int) int { return n - 1 }), 0, last).Partition(keyed("a"), 4), "a spread of 0 counts as 1")
}

func TestCompositeBlocksHaveTheirOwnTurn(t *testing.T) {
	// Two tenants alternate strictly. With one common turn each would get only every second
	// partition of its block.
	p := Composite(List(map[string]int{"a": 0, "b": 1}, nil), 2, RoundRobin())
	counts := map[int]int{}
	for range 50 {
		counts[p.Partition(keyed("a"), 4)]++
		counts[p.Partition(keyed("b"), 4)]++
	}
	require.Equal(t, map[int]int{0: 25, 1: 25, 2: 25, 3: 25}, counts)
}

func TestStickySwitchesAfterABatchOfBytesWhenTheBatchIsFull(t *testing.T) {
	p := Sticky().(BatchAware)
	const n, batch = 1 << 30, 100 // so many that no partition is chosen twice by chance
	first := p.Partition(keyless(), n)
	report := func(bytes int, full bool) {
		p.Appended(Appended{Topic: "t", Partition: int32(p.Partition(keyless(), n)), Partitions: n, Bytes: bytes, BatchBytes: batch, BatchFull: full})
	}
	report(60, true)
	require.Equal(t, first, p.Partition(keyless(), n), "not a batch of bytes yet")
	report(60, false)
	require.Equal(t, first, p.Partition(keyless(), n), "120 bytes, but half a batch is open")
	report(10, true)
	second := p.Partition(keyless(), n)
	require.NotEqual(t, first, second)

	report(199, false)
	require.Equal(t, second, p.Partition(keyless(), n))
	report(1, false)
	seen := map[int]bool{}
	for range 20 {
		seen[p.Partition(keyless(), n)] = true
		report(200, false) // two batches' worth: the switch is unconditional
	}
	require.Greater(t, len(seen), 10)
}

func TestStickyIgnoresReportsOfEarlierChoices(t *testing.T) {
	p := newSticky()
	cur := p.Partition(keyless(), 4)
	p.Appended(Appended{Topic: "t", Partition: int32(cur+1) % 4, Partitions: 4, Bytes: 1 << 20, BatchBytes: 1, BatchFull: true})
	require.Equal(t, cur, p.Partition(keyless(), 4))
}

func TestStickySpreadsOverAllPartitionsInTheLongRun(t *testing.T) {
	p := Composite(PartitionerFunc(func(record.Record, int) int { return 1 }), 4, Sticky()).(BatchAware)
	counts := map[int]int{}
	for range 4000 {
		got := p.Partition(keyless(), 8)
		counts[got]++
		p.Appended(Appended{Topic: "t", Partition: int32(got), Partitions: 8, Bytes: 10, BatchBytes: 20, BatchFull: true})
	}
	require.Len(t, counts, 4, "block 1 only: %v", counts)
	for got, c := range counts {
		require.GreaterOrEqual(t, got, 4)
		require.InDelta(t, 1000, c, 300, "%v", counts)
	}
}

func TestPartitionersAskedByKeyChooseTheSame(t *testing.T) {
	const n = 10
	for name, fresh := range map[string]func() Partitioner{"RoundRobin": RoundRobin, "Default": Default, "Sticky": Sticky} {
		p := fresh().(ByKey)
		turn := p.Partition(keyless(), n)
		for i, r := range []record.Record{keyless(), keyed("a"), keyless(), keyless(), keyed(""), keyless()} {
			got := p.PartitionKey(r.Topic, r.Key, n)
			switch {
			case r.Key != nil && name != "RoundRobin":
				require.Equal(t, p.Partition(r, n), got, "%s %d", name, i)
			case name == "Sticky":
				require.Equal(t, turn, got, i)
			default:
				turn = (turn + 1) % n
				require.Equal(t, turn, got, "%s %d", name, i)
			}
		}
	}
}

func TestPartitionersDoNotAllocatePerRecord(t *testing.T) {
	for name, p := range map[string]Partitioner{
		"Default": Default(), "Hash": Hash(), "XXHash": XXHash(), "RoundRobin": RoundRobin(), "Sticky": Sticky(),
		"Composite": Composite(Hash(), 2, Default()), "Range": Range([]byte("m")), "List": List(map[string]int{"key": 0}, nil),
	} {
		with, without := keyed("key"), keyless()
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Partition(with, 8); p.Partition(without, 8) }), name)
		if p, ok := p.(ByKey); ok {
			require.Zero(t, testing.AllocsPerRun(100, func() { p.PartitionKey("t", with.Key, 8); p.PartitionKey("t", nil, 8) }), name)
		}
	}
}

func BenchmarkPartition(b *testing.B) {
	for name, p := range map[string]Partitioner{"Default": Default(), "XXHash": XXHash(), "Sticky": Sticky()} {
		for _, r := range []record.Record{keyed("user-123456"), keyless()} {
			b.Run(fmt.Sprintf("%s/key=%t", name, r.Key != nil), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.Partition(r, 12)
				}
			})
		}
	}
}
