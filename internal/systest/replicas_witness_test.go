package systest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A sending is one record with the ticks at which it was sent and acknowledged. The witness's
// ticks also order events at one instant of virtual time.
type sending struct {
	value       string
	sent, acked int
	offset      int64
}

// A witness sends records with several producers, each in order, and keeps a list of them.
type witness struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	tick   int
	all    []*sending
	failed []string
}

func (w *witness) run(t *testing.T, c *strata.Cluster, producers int) {
	w.stop = make(chan struct{})
	for i := range producers {
		p, err := producer.New(c, producer.Config{Linger: time.Millisecond})
		require.NoError(t, err)
		w.wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-t.Context().Done(): // the test has failed
					return
				case <-w.stop:
					if err := p.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
					return
				case <-time.After(time.Duration(1+(n+i)%12) * time.Millisecond):
					w.send(t.Context(), p, fmt.Sprintf("%d-%d", i, n))
				}
			}
		})
	}
}

func (w *witness) send(ctx context.Context, p *producer.Producer, value string) {
	s := &sending{value: value, offset: -1}
	w.mu.Lock()
	w.tick++
	s.sent = w.tick
	w.all = append(w.all, s)
	w.mu.Unlock()
	p.SendAsync(ctx, record.String("orders", "k", value), func(r record.Record, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tick++
		if s.acked, s.offset = w.tick, r.Offset; err != nil {
			w.failed = append(w.failed, fmt.Sprint(value, ": ", err))
		}
	})
}

// end stops the producers and returns the values by offset.
func (w *witness) end(t *testing.T) (values []string) {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	require.Empty(t, w.failed)
	slices.SortFunc(w.all, func(a, b *sending) int { return cmp.Compare(a.offset, b.offset) })
	require.NoError(t, disorder(w.all))
	for _, s := range w.all {
		values = append(values, s.value)
	}
	return values
}

// disorder returns an error if acknowledged records, sorted by offset, are wrong. Their offsets
// must be unique and without gaps. A record must follow all records that were acknowledged before
// it was sent. The records of a producer must be in its order.
func disorder(all []*sending) error {
	next := map[int]int{}
	for i, s := range all {
		var producer, n int
		if _, err := fmt.Sscanf(s.value, "%d-%d", &producer, &n); err != nil {
			return err
		}
		switch {
		case s.offset != int64(i):
			return fmt.Errorf("%s is at offset %d behind %d records", s.value, s.offset, i)
		case n != next[producer]:
			return fmt.Errorf("%s comes where number %d of its producer is due", s.value, next[producer])
		}
		next[producer]++
	}
	acked := math.MaxInt // tick of the first acknowledgement of a later record
	for _, s := range slices.Backward(all) {
		if s.sent > acked {
			return fmt.Errorf("%s was sent when one behind it was acknowledged", s.value)
		}
		acked = min(acked, s.acked)
	}
	return nil
}

func TestWitnessNoticesDisorder(t *testing.T) {
	s := func(value string, sent, acked int, offset int64) *sending {
		return &sending{value, sent, acked, offset}
	}
	require.NoError(t, disorder([]*sending{s("0-0", 1, 4, 0), s("1-0", 2, 3, 1), s("0-1", 5, 6, 2)}))
	for want, all := range map[string][]*sending{
		"0-1 is at offset 2 behind 1 records":              {s("0-0", 1, 2, 0), s("0-1", 3, 4, 2)},
		"1-0 is at offset 0 behind 1 records":              {s("0-0", 1, 3, 0), s("1-0", 2, 4, 0)},
		"0-1 comes where number 0 of its producer is due":  {s("0-1", 2, 4, 0), s("0-0", 1, 3, 1)},
		"1-0 was sent when one behind it was acknowledged": {s("1-0", 3, 4, 0), s("0-0", 1, 2, 1)},
		"2-0 was sent when one behind it was acknowledged": {s("2-0", 5, 6, 0), s("1-0", 1, 7, 1), s("0-0", 2, 3, 2)},
	} {
		require.EqualError(t, disorder(all), want)
	}
}

// A reading is a group that reads and commits while leaders and coordinators die.
type reading struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	values    []string
	committed int64 // the last offset that look has read; -1 if none
}

// run starts a member of the group, and a goroutine that checks its commits from time to time. It
// returns when the member has its partition.
func (g *reading) run(t *testing.T, c *strata.Cluster) {
	ctx, cancel := context.WithCancel(t.Context())
	g.cancel, g.committed = cancel, -1
	m, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"orders"}})
	require.NoError(t, err)
	g.wg.Go(func() {
		for r, err := range m.Records(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("the group reads no more: %v", err)
				}
				break
			}
			g.mu.Lock()
			if r.Offset != int64(len(g.values)) {
				t.Errorf("the group has read %d records, and comes to offset %d", len(g.values), r.Offset)
			}
			g.values = append(g.values, string(r.Value))
			g.mu.Unlock()
		}
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	_, err = c.WaitGroup(t.Context(), "g", group.StableWith(1))
	require.NoError(t, err)
	g.wg.Go(func() {
		for ctx.Err() == nil {
			g.look(t, ctx, c)
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// look checks that no committed offset goes back, or beyond the records read.
func (g *reading) look(t *testing.T, ctx context.Context, c *strata.Cluster) {
	tp := record.TopicPartition{Topic: "orders"}
	got, err := c.Backend().FetchOffsets(ctx, "g", []record.TopicPartition{tp})
	if err != nil { // no coordinator: the next look checks again
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := got[tp].Offset; at < g.committed || at > int64(len(g.values)) {
		t.Errorf("%d is committed, after %d, of %d records that were read", at, g.committed, len(g.values))
	}
	g.committed = got[tp].Offset
}

// end waits until n records were read, and stops the member.
func (g *reading) end(t *testing.T, c *strata.Cluster, n int) []string {
	t.Helper()
	await(t, "all records are read", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.values) >= n
	})
	g.cancel()
	g.wg.Wait()
	g.look(t, t.Context(), c)
	require.EqualValues(t, n, g.committed, "all that was read is committed by Close")
	return g.values
}

// requireEqualFiles compares the batches of a topic's first partition on all disks, byte for byte,
// from the highest log start offset on.
func requireEqualFiles(t *testing.T, disks []*vfs.MemFS, name string) {
	t.Helper()
	var logs []*log.Log
	var start int64
	for i, d := range disks {
		l, err := log.OpenReadOnly(path.Join("data", fmt.Sprint("broker-", i+1), name+"-0"), log.Config{FS: d})
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		logs, start = append(logs, l), max(start, l.StartOffset())
	}
	var first []byte
	for i, l := range logs {
		var all []byte
		for at := start; at < l.EndOffset(); {
			n := len(all)
			var err error
			all, err = l.Read(all, at, 1<<20)
			require.NoError(t, err)
			for rest := all[n:]; len(rest) > 0; {
				b, size, err := record.Parse(rest)
				require.NoError(t, err)
				at, rest = b.NextOffset(), rest[size:]
			}
		}
		require.NotEmpty(t, all)
		if i == 0 {
			first = all
		}
		require.True(t, bytes.Equal(first, all), "broker %d has other batches than broker 1", i+1)
	}
}

// requireSame reports the first difference of two long lists.
func requireSame(t *testing.T, want, got []string, what string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "%s, at %d", what, i)
	}
	require.Equal(t, len(want), len(got), what)
}

// await lets virtual time pass until holds returns true.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(begin), 5*time.Minute, what)
	}
}
