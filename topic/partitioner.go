package topic

import (
	"bytes"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/murmur2"
	"github.com/stratalog/strata/record"
)

// Refuse is what a Partitioner returns for a record it has no partition for; the producer fails
// that record.
const Refuse = -1

// A Partitioner chooses the partition of a record on the producer's side. It is not asked for a
// record with an explicit partition (Record.To).
//
// Partition is called with n, the number of partitions of r.Topic (at least 1), and returns a
// partition in [0, n). Any other result, Refuse by custom, refuses the record. It must not keep r's
// slices, must not block, and must be safe for concurrent use. Package partitionertest checks an
// implementation.
type Partitioner interface {
	Partition(r record.Record, n int) int
}

// A PartitionerFunc is a function as Partitioner.
type PartitionerFunc func(r record.Record, n int) int

// Partition calls f.
func (f PartitionerFunc) Partition(r record.Record, n int) int { return f(r, n) }

// BatchAware is implemented by partitioners that go by the batches which the records end up in. The
// producer calls Appended after it has appended a record whose partition this Partitioner chose, if
// that began or filled a batch or an eighth of one has come together, and tells what has grown
// since the call before for that partition; the calls for one topic may come from several
// goroutines at once.
type BatchAware interface {
	Partitioner
	Appended(a Appended)
}

// Appended tells a BatchAware partitioner what became of its records.
type Appended struct {
	Topic      string
	Partition  int32 // where they went
	Partitions int   // of the topic
	Bytes      int   // by how much the partition's batches grew
	BatchBytes int   // the producer's batch size. Kafka: batch.size
	BatchFull  bool  // no half-filled batch is left open for the partition
}

// ByKey is implemented by partitioners that look at a record's topic and key only: they are asked
// without a copy of the record. PartitionKey is Partition in everything else.
type ByKey interface {
	Partitioner
	PartitionKey(topic string, key []byte, n int) int
}

// Default hashes the key as Hash does and gives records without a key (nil; an empty key is a key)
// to the partitions in turn, as RoundRobin.
func Default() Partitioner { return keyedOr{&roundRobin{}} }

// Sticky hashes the key as Hash does and keeps records without a key on one randomly chosen
// partition until about a batch of bytes has gone there, then chooses anew: fewer, fuller batches
// than RoundRobin at the same even spread over time. It is a BatchAware; a producer that does not
// report batches would stay on one partition. Kafka: the built-in partitioner, KIP-794 (uniform,
// without the adaptive part).
func Sticky() Partitioner { return stickyKeyed{keyedOr{newSticky()}} }

// Manual takes Record.Partition as it is.
func Manual() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return int(r.Partition) })
}

// Hash places a record by the murmur2 hash of its key, as the Java client does: the same partition,
// whichever of the two produces it. A record without a key counts as one with an empty key, so all
// of them share a partition; Default spreads them.
func Hash() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return murmur2.Partition(r.Key, n) })
}

// XXHash places a record by the 64-bit xxHash of its key: faster than Hash on long keys, but no
// Kafka client agrees with it. Records without a key share the partition of the empty key.
func XXHash() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return int(xxhash.Sum64(r.Key) % uint64(n)) })
}

// Range places a record by comparing its key with the bounds as bytes: keys below the lowest bound
// go to partition 0, keys from there up to below the next to partition 1, and so on; keys at or
// above the highest to partition len(bounds). No key sorts lowest. A key whose range has no
// partition is refused: n must be greater than len(bounds). The bounds may come in any order; they
// are copied.
func Range(bounds ...[]byte) Partitioner {
	sorted := make([][]byte, len(bounds))
	for i, b := range bounds {
		sorted[i] = bytes.Clone(b)
	}
	slices.SortFunc(sorted, bytes.Compare)
	return rangePartitioner(slices.CompactFunc(sorted, bytes.Equal))
}

type rangePartitioner [][]byte

func (bounds rangePartitioner) Partition(r record.Record, n int) int {
	i, equal := slices.BinarySearchFunc(bounds, r.Key, bytes.Compare)
	if equal {
		i++
	}
	if i >= n {
		return Refuse
	}
	return i
}

// List places a record by looking its key up in a table of partitions. Keys that are not listed go
// to fallback; nil refuses them. The table is copied. A listed partition that the topic does not
// have is refused.
func List(values map[string]int, fallback Partitioner) Partitioner {
	l := listPartitioner{values: make(map[string]int, len(values)), fallback: fallback}
	for k, p := range values {
		l.values[k] = p
	}
	return l
}

type listPartitioner struct {
	values   map[string]int
	fallback Partitioner
}

func (l listPartitioner) Partition(r record.Record, n int) int {
	if p, ok := l.values[string(r.Key)]; ok && r.Key != nil {
		if p < 0 || p >= n {
			return Refuse
		}
		return p
	}
	if l.fallback == nil {
		return Refuse
	}
	return l.fallback.Partition(r, n)
}

// keyedOr hashes keyed records and leaves the others to keyless.
type keyedOr struct{ keyless inTurn }

// inTurn is what keeps one turn per topic and block.
type inTurn interface {
	partitionIn(topic string, key []byte, block, n int) int
}

func (p keyedOr) Partition(r record.Record, n int) int { return p.partitionIn(r.Topic, r.Key, 0, n) }

func (p keyedOr) PartitionKey(topic string, key []byte, n int) int {
	return p.partitionIn(topic, key, 0, n)
}

func (p keyedOr) partitionIn(topic string, key []byte, block, n int) int {
	if key != nil {
		return murmur2.Partition(key, n)
	}
	return p.keyless.partitionIn(topic, nil, block, n)
}
