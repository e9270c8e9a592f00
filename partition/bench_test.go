package partition

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// producing is a client that sends batch after batch and waits for each, without own allocations.
type producing struct {
	p    *Partition
	req  ProduceRequest
	done chan ProduceResult
	seq  int32
	n    int
}

func newProducing(p *Partition, pid int64, records, size int) *producing {
	c := &producing{p: p, done: make(chan ProduceResult, 1), n: records}
	c.req.Batch = batchSpec{pid: pid, n: records, value: strings.Repeat("x", size)}.build()
	c.req.Done = func(r ProduceResult) { c.done <- r }
	return c
}

func (c *producing) send() ProduceResult {
	c.p.Produce(&c.req)
	res := <-c.done
	c.seq += int32(c.n)
	return res
}

func TestProduceAndReadHardlyAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	cfg := testConfig(vfs.OS())
	cfg.Log.Sync = log.SyncNever
	p, err := Open(t.TempDir(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.NoError(t, p.BecomeLeader(0))
	c := newProducing(p, 0, 100, 100)
	c.send()
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { c.send() }), 2.0, "produce")
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() {
		if res, err := p.Read(ReadRequest{MaxBytes: 100_000, CurrentLeaderEpoch: -1}); err != nil || len(res.Bytes) == 0 {
			t.Fatal(err)
		}
	}), 2.0, "read: the buffer and the list of segments")
	buf := make([]byte, 0, 200_000)
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() {
		if _, err := p.Read(ReadRequest{MaxBytes: 100_000, CurrentLeaderEpoch: -1, Buf: buf}); err != nil {
			t.Fatal(err)
		}
	}), 1.0, "read into a buffer")
}

func TestFloodOfProducerIDsCostsLessThan200BytesEach(t *testing.T) {
	const ids = 100_000
	s := newProducers(day)
	before := heapInUse()
	for pid := range int64(ids) {
		s.apply(&record.Batch{ProducerID: pid}, pid, 0)
	}
	used := heapInUse() - before
	t.Logf("%d B", used/ids)
	require.LessOrEqual(t, used/ids, uint64(200), "map included")
	runtime.KeepAlive(s)
	s.apply(&record.Batch{ProducerID: ids}, ids, 2*day.Milliseconds())
	require.Len(t, s.m, 1, "forgotten when a new one comes")
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkProduce(b *testing.B) {
	for _, fsync := range []struct {
		name   string
		policy log.SyncPolicy
	}{{"never", log.SyncNever}, {"ack", log.SyncOnAck}} {
		for _, records := range []int{1, 100} {
			for _, writers := range []int{1, 64} {
				b.Run(fmt.Sprintf("fsync=%s/records=%d/writers=%d", fsync.name, records, writers), func(b *testing.B) {
					cfg := testConfig(vfs.OS())
					cfg.Log.Sync = fsync.policy
					p, err := Open(b.TempDir(), cfg)
					require.NoError(b, err)
					defer p.Close()
					require.NoError(b, p.BecomeLeader(0))
					b.ReportAllocs()
					b.ResetTimer()
					var wg sync.WaitGroup
					for w := range writers {
						wg.Go(func() {
							c := newProducing(p, 0, records, 100)
							for range (b.N + w) / writers {
								if res := c.send(); res.Err != nil {
									b.Error(res.Err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
				})
			}
		}
	}
}

func BenchmarkCheckOfAnIdempotentProducer(b *testing.B) {
	s, r := newProducers(day), round{}
	batch := record.Batch{ProducerID: 7, LastOffsetDelta: 0}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.check(&r, &batch, nil); err != nil {
			b.Fatal(err)
		}
		s.apply(&batch, 0, 0)
		r.reset()
		batch.BaseSequence = (batch.BaseSequence + 1) & seqMask
	}
}

func BenchmarkRead(b *testing.B) {
	p := openLeader(b, testConfig(vfs.Mem()))
	c := newProducing(p, 0, 100, 100)
	for range 100 {
		c.send()
	}
	b.ReportAllocs()
	for b.Loop() {
		res, err := p.Read(ReadRequest{MaxBytes: 1 << 20, CurrentLeaderEpoch: -1})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(res.Bytes)))
	}
}

// BenchmarkReadCommitted reads 1 MiB of plain records between 10,000 transactions and 10,000 more,
// in one segment. It measures the cost of finding that none of them matters.
func BenchmarkReadCommitted(b *testing.B) {
	const ids = 10_000
	each := func(p *Partition, do func(p *Partition, pid int64)) {
		for pid := range int64(ids) {
			do(p, pid+1)
		}
	}
	write := func(p *Partition, pid int64) { send(p, batchSpec{pid: pid, txn: true}) }
	abort := func(p *Partition, pid int64) { end(p, TxnMarker{ProducerID: pid}) }
	nobody := func(*Partition) {}
	aborted := func(p *Partition) { each(p, write); each(p, abort) }
	for _, c := range []struct {
		name          string
		before, after func(p *Partition)
		batch         int  // records of one batch
		stored        bool // closed and opened again
	}{
		{"none", nobody, nobody, 100, false},
		{"aborted", aborted, aborted, 100, false},
		{"aborted, stored", aborted, aborted, 100, true},
		{"aborted, batches of one", aborted, aborted, 1, false},
		{"open", nobody, func(p *Partition) { each(p, write) }, 100, false},
	} {
		cfg := testConfig(vfs.Mem())
		p := openLeader(b, cfg)
		c.before(p)
		first := p.HighWatermark()
		plain := newProducing(p, 0, c.batch, 100)
		for range 10_000 / c.batch {
			plain.send()
		}
		c.after(p)
		if c.stored {
			require.NoError(b, p.Close())
			p = reopen(b, cfg, 1)
		}
		for name, isolation := range map[string]Isolation{"uncommitted": ReadUncommitted, "committed": ReadCommitted} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				buf := make([]byte, 0, 2<<20)
				b.ReportAllocs()
				for b.Loop() {
					res, err := p.Read(ReadRequest{Offset: first, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, Isolation: isolation, Buf: buf})
					if err != nil || len(res.Bytes) < 1<<19 || len(res.Aborted) > 0 {
						b.Fatal(err, len(res.Bytes), len(res.Aborted))
					}
				}
			})
		}
	}
}

// BenchmarkProduceToWake measures from Produce of one record to the end of the read of a reader
// that waited for it.
func BenchmarkProduceToWake(b *testing.B) {
	cfg := testConfig(vfs.OS())
	cfg.Log.Sync = log.SyncNever
	p, err := Open(b.TempDir(), cfg)
	require.NoError(b, err)
	defer p.Close()
	require.NoError(b, p.BecomeLeader(0))
	c := newProducing(p, 0, 1, 100)
	b.ReportAllocs()
	read := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 0, 4096)
		for from := int64(0); from < int64(b.N); {
			woken := make(chan struct{})
			w := NewWaiter(1, ReadCommitted, func() { close(woken) })
			p.Watch(from, w)
			ready <- struct{}{}
			<-woken
			w.Cancel()
			res, err := p.Read(ReadRequest{Offset: from, CurrentLeaderEpoch: -1, Buf: buf})
			if err != nil {
				b.Error(err)
				return
			}
			from = res.LastStableOffset
		}
	}()
	for range b.N {
		<-ready
		c.send()
	}
	<-read
}
