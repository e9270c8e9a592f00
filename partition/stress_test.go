package partition

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A stress runs producers, readers, leader changes with truncation, deletion and new settings on
// one partition, all at once.
type stress struct {
	p       *Partition
	perPID  int
	writers int

	// offset -> value: an offset below the high watermark keeps its value
	values   sync.Map
	position atomic.Int64 // of the slowest checking reader: records above it are not deleted
	stop     chan struct{}
}

func TestProduceFetchTruncateAndDeleteTogether(t *testing.T) {
	for _, c := range []struct {
		name string
		sync log.SyncPolicy
	}{{"fsync=ack", log.SyncOnAck}, {"fsync=never", log.SyncNever}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig(vfs.Mem())
			cfg.Log.Sync = c.sync
			cfg.Log.SegmentBytes = 5000
			s := &stress{p: openLeader(t, cfg), perPID: 200, writers: 4, stop: make(chan struct{})}
			var work, others sync.WaitGroup
			for w := range s.writers {
				work.Go(func() { s.produce(t, int64(w+1)) })
			}
			work.Go(func() { s.follow(t) })
			others.Go(func() { s.readAtRandom(t) })
			others.Go(func() { s.changeLeaders(t) })
			others.Go(func() { s.delete(t) })
			others.Go(func() { s.reconfigure(t, cfg) })
			work.Wait()
			close(s.stop)
			others.Wait()
		})
	}
}

func (s *stress) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// pause lets the other goroutines run for a moment.
func (s *stress) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// produce sends the batches of one idempotent producer, each until it is acknowledged.
func (s *stress) produce(t *testing.T, pid int64) {
	for seq := range int32(s.perPID) {
		batch := batchSpec{pid: pid, seq: seq, values: []string{fmt.Sprintf("%d-%d", pid, seq)}}.build()
		for {
			res := sendBytes(s.p, batch, record.AcksAll)
			if res.Err == nil {
				break
			}
			if !errors.Is(res.Err, ErrNotLeader) && !errors.Is(res.Err, ErrNotLeaderAfterAppend) {
				t.Errorf("producer %d sequence %d: %v", pid, seq, res.Err)
				return
			}
		}
	}
}

// follow reads everything once, waiting at the end. It checks that each producer's records come in
// order, each once.
func (s *stress) follow(t *testing.T) {
	next := map[string]int{}
	from, total := int64(0), 0
	for total < s.writers*s.perPID {
		res, err := s.p.Read(ReadRequest{Offset: from, MaxBytes: 2000, CurrentLeaderEpoch: -1})
		if errors.Is(err, ErrNotLeader) {
			continue
		}
		if err != nil {
			t.Errorf("read from %d: %v", from, err)
			return
		}
		if len(res.Bytes) == 0 {
			s.wait(max(from, res.LastStableOffset))
			continue
		}
		for _, r := range s.check(t, res.Bytes, from) {
			pid, seq := "", 0
			if _, err := fmt.Sscanf(r.Value, "%1s-%d", &pid, &seq); err != nil || next[pid] != seq || r.Offset != from {
				t.Errorf("offset %d: %q, wanted offset %d and sequence %d (%v)", r.Offset, r.Value, from, next[pid], err)
				return
			}
			next[pid]++
			from = r.Offset + 1
			total++
		}
		s.position.Store(from)
	}
}

func (s *stress) wait(offset int64) {
	woken := make(chan struct{})
	w := NewWaiter(1, ReadCommitted, func() { close(woken) })
	s.p.Watch(offset, w)
	<-woken
	w.Cancel()
}

// check parses batches and compares their records with earlier reads.
func (s *stress) check(t *testing.T, batches []byte, from int64) []seen {
	c := consumed{from: from, aborted: map[int64]bool{}}
	for len(batches) > 0 {
		b, n, err := record.Parse(batches)
		if err == nil {
			err = c.take(b)
		}
		if err != nil {
			t.Errorf("read from %d: %v", from, err)
			return nil
		}
		batches = batches[n:]
	}
	for _, r := range c.out {
		if was, ok := s.values.LoadOrStore(r.Offset, r.Value); ok && was != r.Value {
			t.Errorf("offset %d was %q and is %q", r.Offset, was, r.Value)
		}
	}
	return c.out
}

func (s *stress) readAtRandom(t *testing.T) {
	rnd := newRand(1)
	for !s.stopped() {
		start := s.p.LogStartOffset()
		from := start + rnd.Int64N(s.p.HighWatermark()+1-min(start, s.p.HighWatermark()))
		res, err := s.p.Read(ReadRequest{Offset: from, MaxBytes: rnd.IntN(5000), Isolation: ReadUncommitted, CurrentLeaderEpoch: -1})
		switch {
		case errors.Is(err, ErrNotLeader), errors.Is(err, ErrOffsetOutOfRange):
		case err != nil:
			t.Errorf("read from %d: %v", from, err)
			return
		default:
			s.check(t, res.Bytes, from)
		}
		st := s.p.Stats()
		if st.LogStartOffset > st.LastStableOffset || st.LastStableOffset > st.HighWatermark || st.HighWatermark > st.LogEndOffset {
			t.Errorf("watermarks out of order: %+v", st)
			return
		}
	}
}

// changeLeaders makes the partition a follower, truncates it to the high watermark as for a new
// leader, and makes it the leader again.
func (s *stress) changeLeaders(t *testing.T) {
	for epoch := int32(1); s.pause(3 * time.Millisecond); epoch++ {
		s.p.BecomeFollower()
		if err := s.p.TruncateTo(s.p.HighWatermark()); err != nil {
			t.Errorf("truncate: %v", err)
		}
		if err := s.p.BecomeLeader(epoch); err != nil {
			t.Errorf("lead: %v", err)
		}
	}
}

func (s *stress) delete(t *testing.T) {
	for s.pause(2 * time.Millisecond) {
		to := min(s.position.Load(), s.p.HighWatermark())
		if _, err := s.p.DeleteRecords(to); err != nil && !errors.Is(err, ErrNotLeader) {
			t.Errorf("delete before %d: %v", to, err)
		}
	}
}

func (s *stress) reconfigure(t *testing.T, cfg Config) {
	for i := 0; s.pause(4 * time.Millisecond); i++ {
		cfg.Log.SegmentBytes = int64(3000 + 1000*(i%4))
		if err := s.p.Reconfigure(cfg); err != nil {
			t.Errorf("reconfigure: %v", err)
		}
	}
}

func TestCloseInTheMiddleOfEverythingEndsEveryCall(t *testing.T) {
	for range 20 {
		p := reopen(t, testConfig(vfs.Mem()), 0)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for seq := int32(0); ; seq++ {
					res := send(p, batchSpec{pid: int64(w + 1), seq: seq})
					if res.Err != nil {
						require.ErrorIs(t, res.Err, ErrClosed)
						return
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for from := int64(0); ; {
					res, err := p.Read(ReadRequest{Offset: from, CurrentLeaderEpoch: -1})
					if err != nil {
						require.ErrorIs(t, err, ErrClosed)
						return
					}
					from = res.LastStableOffset
					woken := make(chan struct{})
					w := NewWaiter(1, ReadCommitted, func() { close(woken) })
					p.Watch(from, w)
					<-woken
					w.Cancel()
				}
			})
		}
		for p.HighWatermark() < 50 {
			if send(p, batchSpec{}).Err != nil {
				t.Fatal("closed already")
			}
		}
		// These two wait at Close for certain, in any state of the other goroutines.
		far := make(chan Isolation, 2)
		for _, isolation := range []Isolation{ReadUncommitted, ReadCommitted} {
			w := NewWaiter(1, isolation, func() { far <- isolation })
			p.Watch(1<<40, w)
			defer w.Cancel()
		}
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() { require.NoError(t, p.Close()) })
		}
		closers.Wait()
		wg.Wait()
		require.ElementsMatch(t, []Isolation{ReadUncommitted, ReadCommitted}, []Isolation{<-far, <-far})
	}
}
