package topic

import (
	"bytes"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/murmur2"
	"github.com/stratalog/strata/record"
)

// Refuse is returned by a Partitioner that has no partition for a record; the producer fails that
// record.
const Refuse = -1

// A Partitioner chooses the partition of a record in the producer. It is not called for a record
// with an explicit partition (Record.To).
//
// Partition is called with n, the number of partitions of r.Topic (at least 1), and returns a
// partition in [0, n). Any other result, by convention Refuse, rejects the record. It must not keep
// r's slices, must not block, and must be safe for concurrent use. Package partitionertest checks
// an implementation.
type Partitioner interface {
	Partition(r record.Record, n int) int
}

// A PartitionerFunc is a function that implements Partitioner.
type PartitionerFunc func(r record.Record, n int) int

// Partition calls f.
func (f PartitionerFunc) Partition(r record.Record, n int) int { return f(r, n) }

// BatchAware is implemented by partitioners that depend on how full batches are. The producer calls
// Appended after it has appended a record whose partition this Partitioner chose: when that record
// began or filled a batch, or when an eighth of a batch has accumulated. The argument covers the
// growth of that partition's batches since the previous call. Calls for one topic may come from
// several goroutines at once.
type BatchAware interface {
	Partitioner
	Appended(a Appended)
}

// Appended describes how the batches of a partition have grown.
type Appended struct {
	Topic      string
	Partition  int32 // partition the records went to
	Partitions int   // number of partitions of the topic
	Bytes      int   // growth of the partition's batches
	BatchBytes int   // the producer's batch size. Kafka: batch.size
	BatchFull  bool  // the partition has no partially filled open batch
}

// ByKey is implemented by partitioners that depend only on a record's topic and key. They are
// called without a copy of the record. PartitionKey otherwise behaves as Partition.
type ByKey interface {
	Partitioner
	PartitionKey(topic string, key []byte, n int) int
}

// Default hashes the key as Hash does, and distributes records without a key as RoundRobin does.
// Only a nil key counts as none; an empty key is hashed.
func Default() Partitioner { return keyedOr{&roundRobin{}} }

// Sticky hashes the key as Hash does. Records without a key go to one randomly chosen partition
// until it has received about a batch of bytes, then to another one. Batches are fewer and fuller
// than with RoundRobin, and over time equally distributed. It is a BatchAware; with a producer that
// does not report batches it would stay on one partition. Kafka: the built-in partitioner, KIP-794
// (uniform, without the adaptive part).
func Sticky() Partitioner { return stickyKeyed{keyedOr{newSticky()}} }

// Manual uses Record.Partition unchanged.
func Manual() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return int(r.Partition) })
}

// Hash chooses the partition by the murmur2 hash of the key, as the Java client does: both
// producers choose the same partition. A record without a key counts as one with an empty key, so
// all of them share a partition; Default distributes them.
func Hash() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return murmur2.Partition(r.Key, n) })
}

// XXHash chooses the partition by the 64-bit xxHash of the key. It is faster than Hash on long
// keys, but no Kafka client chooses the same partitions. Records without a key share the partition
// of the empty key.
func XXHash() Partitioner {
	return PartitionerFunc(func(r record.Record, n int) int { return int(xxhash.Sum64(r.Key) % uint64(n)) })
}

// Range chooses the partition by comparing the key with the bounds as bytes. Keys below the lowest
// bound go to partition 0, keys from there up to below the next bound to partition 1, and so on;
// keys at or above the highest go to partition len(bounds). A missing key sorts lowest. A key whose
// partition does not exist is rejected, so n must be greater than len(bounds). The bounds may be in
// any order; they are copied.
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

// List chooses the partition from a table of keys. Keys that are not in the table go to fallback;
// nil rejects them. The table is copied. A partition that the topic does not have is rejected.
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
