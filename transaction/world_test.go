package transaction

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

type tp = record.TopicPartition

// A world is a cluster with the coordinator of its transactions, in virtual time.
type world struct {
	*testing.T
	brokers *tappedBrokers
	disks   []*vfs.MemFS
	cfg     Config
	c       *Coordinator
}

// tappedBrokers are the brokers of a cluster, whose answers to markers a test may replace.
type tappedBrokers struct {
	*replication.Cluster

	mu sync.Mutex
	// returns nil, or the error with which the marker is not written
	before func(path replication.NetworkPath, m replication.TxnMarker) error
	sent   []replication.TxnMarker
}

func (b *tappedBrokers) WriteTxnMarkers(path replication.NetworkPath, markers []replication.TxnMarker, stop <-chan struct{}, done func(int, error)) {
	for i, m := range markers {
		b.mu.Lock()
		b.sent = append(b.sent, m)
		before := b.before
		b.mu.Unlock()
		if before != nil {
			if err := before(path, m); err != nil {
				done(i, err)
				continue
			}
		}
		b.Cluster.WriteTxnMarkers(path, []replication.TxnMarker{m}, stop, func(_ int, err error) { done(i, err) })
	}
}

// onMarkers replaces the function that is called before a marker is written.
func (b *tappedBrokers) onMarkers(before func(path replication.NetworkPath, m replication.TxnMarker) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = before
}

// in runs a test in a cluster with the given number of brokers, and topics "a" and "b" of three
// partitions each.
func in(t *testing.T, brokers int, cfg Config, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, cfg: cfg}
		specs := map[int32]replication.BrokerSpec{}
		for i := range brokers {
			w.disks = append(w.disks, vfs.Mem())
			specs[int32(i+1)] = replication.BrokerSpec{FS: w.disks[i]}
		}
		cluster, err := replication.Open(replication.Config{Dir: "data", FS: w.disks[0], Brokers: brokers, BrokerSpecs: specs})
		require.NoError(t, err)
		w.brokers = &tappedBrokers{Cluster: cluster}
		for _, name := range []string{"a", "b"} {
			w.create(name)
		}
		w.start()
		t.Cleanup(func() {
			require.NoError(t, w.c.Close())
			require.NoError(t, cluster.Close())
		})
		test(w)
	})
}

func (w *world) create(name string) {
	n := len(w.disks)
	require.NoError(w, w.brokers.CreateTopic(w.Context(), name, topic.Config{Partitions: 3, ReplicationFactor: n,
		Properties: map[string]string{"min.insync.replicas": string(rune('0' + min(2, n)))}}))
}

// start creates a coordinator, like the one of another process.
func (w *world) start() {
	cfg, err := w.cfg.withDefaults()
	require.NoError(w, err)
	states, err := newStates(w.brokers.Cluster, cfg.Topic)
	require.NoError(w, err)
	cfg.Version, err = states.agree(w.cfg.Version, cfg.Version)
	require.NoError(w, err)
	w.c = newCoordinator(states, w.brokers, new(memory.Budget), cfg)
}

func (w *world) init(id string) Producer {
	w.Helper()
	p, err := w.c.InitProducerID(w.Context(), id, time.Minute, NoProducer)
	require.NoError(w, err)
	return p
}

// A writer is a producer with a transactional id.
type writer struct {
	w       *world
	id      string
	version int16
	p       Producer
	seqs    map[tp]int32
}

func (w *world) writer(id string, version int16) *writer {
	return &writer{w: w, id: id, version: version, p: w.init(id), seqs: map[tp]int32{}}
}

func (p *writer) add(tps ...tp) error {
	return p.w.c.AddPartitions(p.w.Context(), AddRequest{ID: p.id, Producer: p.p, Partitions: tps, Version: p.version})
}

// write adds a partition and appends a record to it.
func (p *writer) write(to tp, value string) error {
	if err := p.add(to); err != nil {
		return err
	}
	return p.append(to, value)
}

func (p *writer) append(to tp, value string) error {
	err := appendRecord(p.w.brokers, p.id, p.p, to, p.seqs[to], value)
	if err == nil {
		p.seqs[to]++
	}
	return err
}

func appendRecord(b *tappedBrokers, id string, p Producer, to tp, seq int32, value string) error {
	var batch record.Builder
	batch.Reset(0)
	batch.SetProducer(p.ID, p.Epoch, seq)
	batch.SetTransactional(true)
	batch.AppendKV(time.Now().UnixMilli(), nil, []byte(value), nil)
	bytes, err := batch.Build(record.None)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	b.Produce(&partition.ProduceRequest{TopicPartition: to, Batch: bytes, Acks: record.AcksAll, TransactionalID: id,
		Done: func(r partition.ProduceResult) { done <- r.Err }})
	return <-done
}

func (p *writer) end(commit bool) error {
	next, err := p.w.c.End(p.w.Context(), EndRequest{ID: p.id, Producer: p.p, Commit: commit, Version: p.version})
	if err == nil && p.version == 2 {
		p.p = next
		clear(p.seqs)
	}
	return err
}

// committed returns the values that a ReadCommitted reader gets of a partition, up to its last
// stable offset.
func (w *world) committed(of tp) []string {
	w.Helper()
	values, err := readCommitted(w.Context(), w.brokers.Cluster, of)
	require.NoError(w, err)
	return values
}

func readCommitted(ctx context.Context, c *replication.Cluster, of tp) (values []string, err error) {
	for next := int64(0); ; {
		resp, err := c.Fetch(ctx, &partition.FetchRequest{Isolation: partition.ReadCommitted,
			Partitions: []partition.FetchPartition{{TopicPartition: of, Offset: next, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
		if err != nil {
			return nil, err
		}
		got := resp.Partitions[0]
		if got.Err != nil || len(got.Bytes) == 0 {
			return values, got.Err
		}
		slices.SortFunc(got.Aborted, func(a, b partition.AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
		aborted := map[int64]bool{} // by producer
		for p := got.Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			if err != nil {
				return nil, err
			}
			for len(got.Aborted) > 0 && got.Aborted[0].FirstOffset <= b.LastOffset() {
				aborted[got.Aborted[0].ProducerID], got.Aborted = true, got.Aborted[1:]
			}
			switch {
			case b.IsControl():
				if kind, _, err := b.Control(); err != nil || kind == record.ControlAbort {
					delete(aborted, b.ProducerID)
				}
			case !aborted[b.ProducerID]:
				for r, err := range b.All() {
					if err != nil {
						return nil, err
					}
					values = append(values, string(r.Value))
				}
			}
			next, p = b.NextOffset(), p[n:]
		}
	}
}

func (w *world) state(id string) State {
	w.Helper()
	d, err := w.c.Describe(w.Context(), id)
	require.NoError(w, err)
	return d.State
}

// stable reports whether no transaction is open in a partition.
func (w *world) stable(of tp) bool {
	s := w.brokers.Status(of.Topic, of.Partition)
	require.NoError(w, s.Err)
	got, err := w.brokers.ListOffsets(w.Context(), map[tp]partition.OffsetSpec{of: partition.Latest}, partition.ReadCommitted)
	require.NoError(w, err)
	return got[of].Offset == s.HighWatermark
}

// settled waits until all markers that are owed are written.
func (w *world) settled() {
	w.Helper()
	synctest.Wait()
	require.Eventually(w, func() bool { st := w.c.Stats(); return st.MarkersOwed == 0 && st.Prepared == 0 }, 10*time.Minute, 10*time.Millisecond)
}

// level returns the Config.Version for clients of a version.
func level(version int16) int16 {
	if version == 0 {
		return LevelZero
	}
	return version
}
