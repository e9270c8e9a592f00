package partition

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// testConfig configures a partition of topic t in memory.
func testConfig(fs vfs.FS) Config {
	return Config{Topic: "t", Log: log.Config{FS: fs}}
}

// openLeader opens the partition in directory "p" and makes it the leader in epoch 0. The test
// closes it.
func openLeader(t testing.TB, cfg Config) *Partition {
	t.Helper()
	p := reopen(t, cfg, 0)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// reopen opens the partition in directory "p" and makes it the leader in an epoch.
func reopen(t testing.TB, cfg Config, epoch int32) *Partition {
	t.Helper()
	p, err := Open("p", cfg)
	require.NoError(t, err)
	require.NoError(t, p.BecomeLeader(epoch))
	return p
}

// A batchSpec describes a batch to build.
type batchSpec struct {
	pid    int64 // 0: none
	epoch  int16
	seq    int32
	n      int    // records; 0: 1
	value  string // of each record, followed by its number
	key    string // "": no key
	ts     int64  // ms; 0: now
	codec  record.Codec
	txn    bool
	values []string // used instead of n and value
}

func (s batchSpec) build() []byte {
	var b record.Builder
	if s.pid != 0 {
		b.SetProducer(s.pid, s.epoch, s.seq)
	}
	b.SetTransactional(s.txn)
	if s.ts == 0 {
		s.ts = time.Now().UnixMilli()
	}
	if s.values == nil {
		for i := range max(s.n, 1) {
			s.values = append(s.values, fmt.Sprint(s.value, i))
		}
	}
	for _, v := range s.values {
		var key []byte
		if s.key != "" {
			key = []byte(s.key)
		}
		b.AppendKV(s.ts, key, []byte(v), nil)
	}
	p, err := b.Build(s.codec)
	if err != nil {
		panic(err)
	}
	return p
}

// send produces one batch with all acks, as a client with a transactional id, and waits for the
// result.
func send(p *Partition, s batchSpec) ProduceResult { return sendBytes(p, s.build(), record.AcksAll) }

func sendBytes(p *Partition, batch []byte, acks record.Acks) ProduceResult {
	done := make(chan ProduceResult, 1)
	p.Produce(&ProduceRequest{Batch: batch, Acks: acks, TransactionalID: "tx", Done: func(r ProduceResult) { done <- r }})
	return <-done
}

// end ends a transaction and waits for the marker.
func end(p *Partition, m TxnMarker) ProduceResult {
	done := make(chan ProduceResult, 1)
	p.EndTransaction(m, func(r ProduceResult) { done <- r })
	return <-done
}

// seen is a record that a reader got.
type seen struct {
	Offset int64
	Value  string
}

// readAll reads everything below the bound of the isolation level, as a consumer does, without
// aborted records and markers.
func readAll(t testing.TB, p *Partition, isolation Isolation) []seen {
	t.Helper()
	out, err := readFrom(p, p.LogStartOffset(), isolation, 1<<20)
	require.NoError(t, err)
	return out
}

func readFrom(p *Partition, from int64, isolation Isolation, max int) ([]seen, error) {
	var out []seen
	for {
		res, err := p.Read(ReadRequest{Offset: from, MaxBytes: max, Isolation: isolation, CurrentLeaderEpoch: -1})
		if err != nil || len(res.Bytes) == 0 {
			return out, err
		}
		c := consumed{from: from, txns: res.Aborted, aborted: map[int64]bool{}}
		slices.SortFunc(c.txns, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
		for rest := res.Bytes; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			if err != nil {
				return out, err
			}
			rest = rest[n:]
			if err := c.take(b); err != nil {
				return out, err
			}
			from = b.NextOffset()
		}
		out = append(out, c.out...)
	}
}

// consumed is a consumer's view of one fetch (Kafka: CompletedFetch).
type consumed struct {
	from    int64
	txns    []AbortedTxn // by first offset, not yet reached
	aborted map[int64]bool
	out     []seen
}

func (c *consumed) take(b *record.Batch) error {
	for len(c.txns) > 0 && c.txns[0].FirstOffset <= b.LastOffset() {
		c.aborted[c.txns[0].ProducerID] = true
		c.txns = c.txns[1:]
	}
	if b.IsControl() {
		kind, _, err := b.Control()
		if kind == record.ControlAbort {
			delete(c.aborted, b.ProducerID)
		}
		return err
	}
	if b.IsTransactional() && c.aborted[b.ProducerID] {
		return nil
	}
	for r, err := range b.All() {
		if err != nil {
			return err
		}
		if r.Offset >= c.from {
			c.out = append(c.out, seen{r.Offset, string(r.Value)})
		}
	}
	return nil
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
