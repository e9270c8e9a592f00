// Package partitionertest checks that an implementation of topic.Partitioner keeps the interface's
// promises.
//
//	func TestMine(t *testing.T) {
//		newMine := func() topic.Partitioner { return mine{} }
//		partitionertest.Run(t, newMine, partitionertest.Config{KeyDecides: true})
//	}
package partitionertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Config describes promises of the implementation beyond the interface. The zero Config has none.
type Config struct {
	// KeyDecides: records with the same key and the same number of partitions always go to the same
	// partition.
	KeyDecides bool
	// Even: records without a key are spread so that after many of them every partition has its
	// share, give or take one.
	Even      bool
	MayRefuse bool // results outside [0, n) are allowed

	// Keys are used in addition to random ones, for partitioners with a fixed set of keys.
	Keys []string
}

// Run checks the partitioners that fresh returns, one for each subtest. Run it with -race: one
// check shares a Partitioner between goroutines.
func Run(t *testing.T, fresh func() topic.Partitioner, cfg Config) {
	t.Run("results are partitions", func(t *testing.T) { inRange(t, fresh(), cfg) })
	t.Run("the record is left as it was", func(t *testing.T) { borrows(t, fresh(), cfg) })
	t.Run("safe for concurrent use", func(t *testing.T) { concurrent(t, fresh(), cfg) })
	if cfg.KeyDecides {
		t.Run("the key decides", func(t *testing.T) { keyDecides(t, fresh(), cfg) })
	}
	if cfg.Even {
		t.Run("keyless records are spread evenly", func(t *testing.T) { even(t, fresh()) })
	}
}

// sizes are the numbers of partitions to try, growing and shrinking as a topic that is deleted and
// created again does.
var sizes = []int{1, 2, 3, 7, 10, 1000, 10000, 3, 1}

func inRange(t *testing.T, p topic.Partitioner, cfg Config) {
	for _, n := range sizes {
		for _, r := range records(cfg) {
			if got := p.Partition(r, n); !valid(got, n, cfg) {
				t.Fatalf("Partition(key %q, %d partitions) = %d", r.Key, n, got)
			}
		}
	}
}

func valid(got, n int, cfg Config) bool { return cfg.MayRefuse || got >= 0 && got < n }

func borrows(t *testing.T, p topic.Partitioner, cfg Config) {
	for _, r := range records(cfg) {
		before := r.Clone()
		first := p.Partition(r, 7)
		if !bytes.Equal(before.Key, r.Key) || !bytes.Equal(before.Value, r.Value) {
			t.Fatalf("the bytes of the record with key %q were changed", before.Key)
		}
		for i := range r.Key {
			r.Key[i]++ // a partitioner that kept the slice sees another key now
		}
		if again := p.Partition(before, 7); cfg.KeyDecides && r.Key != nil && again != first {
			t.Fatalf("key %q: partition %d, then %d after the caller reused the key's bytes", before.Key, first, again)
		}
	}
}

func concurrent(t *testing.T, p topic.Partitioner, cfg Config) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rs := records(cfg)
			for i := range 500 {
				r := rs[(i+g)%len(rs)]
				r.Topic = fmt.Sprint("topic-", i%5)
				got := p.Partition(r, 6)
				if !valid(got, 6, cfg) {
					t.Errorf("Partition(key %q, 6 partitions) = %d", r.Key, got)
				}
				if aware, ok := p.(topic.BatchAware); ok && got >= 0 && got < 6 {
					aware.Appended(topic.Appended{Topic: r.Topic, Partition: int32(got), Partitions: 6, Bytes: 100, BatchBytes: 1000, BatchFull: i%10 == 0})
				}
			}
		})
	}
	wg.Wait()
}

func keyDecides(t *testing.T, p topic.Partitioner, cfg Config) {
	for _, n := range sizes {
		for _, r := range records(cfg) {
			if r.Key == nil {
				continue
			}
			want := p.Partition(r, n)
			p.Partition(record.Record{Topic: r.Topic, Value: []byte("something in between")}, n)
			r.Value, r.Headers = []byte("another value"), nil
			if got := p.Partition(r, n); got != want {
				t.Fatalf("key %q of %d partitions: %d, then %d", r.Key, n, want, got)
			}
		}
	}
}

func even(t *testing.T, p topic.Partitioner) {
	for _, n := range []int{1, 3, 10} {
		counts := make([]int, n)
		for range 100 * n {
			counts[p.Partition(record.Record{Topic: fmt.Sprint("t", n), Value: []byte("v")}, n)]++
		}
		for i, c := range counts {
			if c < 99 || c > 101 {
				t.Fatalf("partition %d of %d got %d of %d records", i, n, c, 100*n)
			}
		}
	}
}

// records returns fresh records: without key, with an empty one, with those of cfg and with random
// ones.
func records(cfg Config) []record.Record {
	rs := []record.Record{
		{Topic: "t", Value: []byte("no key")},
		{Topic: "t", Key: []byte{}, Value: []byte("empty key")},
		{Topic: "t", Key: []byte("k"), Headers: []record.Header{{Key: "h", Value: []byte("x")}}},
	}
	for _, k := range cfg.Keys {
		rs = append(rs, record.Record{Topic: "t", Key: []byte(k), Value: []byte("v")})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		key := make([]byte, rng.IntN(40))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		rs = append(rs, record.Record{Topic: "t", Key: key, Value: []byte("v")})
	}
	return rs
}
