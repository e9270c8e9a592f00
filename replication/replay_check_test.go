package replication

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func (w *world) count(e Event) {
	switch e.Kind {
	case LeaderElected:
		w.cover.elections++
		require.False(w.t, e.Unclean)
	case ISRShrunk:
		w.cover.shrunk++
	case LogTruncated:
		w.cover.divergences++
		require.Zero(w.t, e.Lost, "%v", e)
	}
}

// read follows a partition. Records that were read once must stay.
func (w *world) read(ctx context.Context, p int32) {
	for next := int64(0); ctx.Err() == nil; {
		resp, err := w.c.Fetch(ctx, &partition.FetchRequest{
			MinBytes: 1, MaxWait: 700*time.Millisecond + time.Duration(p),
			Partitions: []partition.FetchPartition{{TopicPartition: at(worldTopic, p), Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
		})
		if err != nil {
			return
		}
		got := resp.Partitions[0]
		if got.Err != nil {
			require.NotErrorIs(w.t, got.Err, partition.ErrOffsetOutOfRange, "at %d of %d", next, p)
			time.Sleep(50*time.Millisecond + time.Duration(p))
			continue
		}
		n := next
		next = w.note(p, next, got.Bytes)
		if next > n {
			w.tr.add("read %d to %d", p, next)
		}
	}
}

// note compares the records of a read with earlier reads.
func (w *world) note(p int32, next int64, bytes []byte) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(bytes) > 0 && !w.dead {
		b, n, err := record.Parse(bytes)
		require.NoError(w.t, err)
		for r, err := range b.All() {
			require.NoError(w.t, err)
			switch seen := w.seen[p]; {
			case r.Offset < next:
			case r.Offset < int64(len(seen)):
				require.Equal(w.t, seen[r.Offset], string(r.Value), "read again at %d of %d", r.Offset, p)
				next = r.Offset + 1
			default:
				require.Equal(w.t, int64(len(seen)), r.Offset, "a gap in %d", p)
				w.seen[p] = append(seen, string(r.Value))
				next = r.Offset + 1
			}
		}
		bytes = bytes[n:]
	}
	return next
}

// settle waits until all brokers serve, all replicas are in sync, and all requests have ended.
func (w *world) settle() {
	for range 100 {
		time.Sleep(5 * time.Second)
		w.start()
		out := w.outOfSync()
		if len(w.c.Brokers()) == 3 && len(out) == 0 && len(w.failed) == 0 {
			break
		}
		// A log whose sync has failed is opened again.
		for _, broker := range slices.Sorted(maps.Keys(w.failed)) {
			if w.idle() {
				delete(w.failed, broker)
				w.change(broker, true, "stop", func(ctx context.Context) error { return w.c.StopBroker(ctx, broker) })
				break
			}
		}
	}
	time.Sleep(2 * time.Minute) // every request has ended
	for p := range w.partitions {
		s := w.c.Status(worldTopic, p)
		require.Len(w.t, s.ISR, 3, "%+v", s)
		require.Equal(w.t, map[int32]int64{1: s.LogEndOffset, 2: s.LogEndOffset, 3: s.LogEndOffset}, s.Ends)
		require.Equal(w.t, s.LogEndOffset, s.HighWatermark)
	}
	require.False(w.t, slices.ContainsFunc(w.records[w.first:], func(s *sent) bool { return s.end == 0 }), "a batch without an answer")
}

// outOfSync returns the brokers that are missing in the in-sync set of any partition.
func (w *world) outOfSync() (out []int32) {
	for p := range w.partitions {
		s := w.c.Status(worldTopic, p)
		for id := range int32(3) {
			if s.Leader < 0 || !slices.Contains(s.ISR, id+1) {
				out = append(out, id+1)
			}
		}
	}
	return out
}

// close reads all partitions once more, in a cluster without disturbances.
func (w *world) close() {
	c, err := Open(w.disks.config())
	require.NoError(w.t, err)
	for p := range w.partitions {
		require.NoError(w.t, c.WaitISR(w.t.Context(), at(worldTopic, p)))
		have := values(w.t, c, at(worldTopic, p))
		require.GreaterOrEqual(w.t, len(have), len(w.seen[p]), "what was read is gone")
		require.Equal(w.t, w.seen[p], have[:len(w.seen[p])], "what was read is another")
		w.seen[p] = have
	}
	require.NoError(w.t, c.Close())
}

// check compares the results of appends with the contents of partitions.
func (w *world) check() {
	for p := range w.partitions {
		where := map[string]int64{}
		for offset, value := range w.seen[p] {
			_, twice := where[value]
			require.False(w.t, twice, "%s is there twice", value)
			where[value] = int64(offset)
		}
		var before []*sent
		for _, s := range w.records {
			if s.partition != p {
				continue
			}
			offset, there := where[s.value]
			switch {
			case s.err == nil && s.end > 0 && s.acks == record.AcksAll:
				require.True(w.t, there, "%s was acknowledged", s.value)
				require.Equal(w.t, s.offset, offset, "%s", s.value)
				w.cover.acknowledged++
			case s.err != nil && !errors.Is(s.err, ErrNotLeader) && !there:
				w.cover.lost++
			case s.err != nil && there:
				require.False(w.t, neverAppended(s.err), "%s is there, and its producer was told that it is not: %v", s.value, s.err)
			}
			if there {
				before = append(before, s)
			}
		}
		for _, s := range before { // an append acknowledged before another began is before it
			for _, o := range before {
				if s.err == nil && s.end > 0 && s.end < o.begin {
					require.Less(w.t, where[s.value], where[o.value], "%s was acknowledged before %s was handed in", s.value, o.value)
				}
			}
		}
	}
}

// neverAppended reports whether an error means that nothing was appended.
func neverAppended(err error) bool {
	return errors.Is(err, ErrNotLeader) && !errors.Is(err, partition.ErrNotLeaderAfterAppend) ||
		errors.Is(err, partition.ErrNotEnoughReplicas) && !errors.Is(err, partition.ErrNotEnoughReplicasAfterAppend)
}
