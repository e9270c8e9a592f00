package systest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A storm with care also maintains its logs. Compaction removes tombstones and markers at once,
// records are deleted, also those of open transactions, and replicas move. Topic "b" is compacted,
// with a key for each record, so that all committed records stay. Topic "d" loses its records, and
// is not read. Topic "k" is a table whose keys are put and deleted.

const deletable, table = "d", "k"

// createCared creates the topics of a storm with care.
func (s *txnStorm) createCared() {
	purged := log.Config{Cleanup: log.CleanupCompact, MinDirtyRatio: 0.001, DeleteRetention: time.Millisecond, RetentionAge: log.Unlimited}
	both := purged
	both.Cleanup = log.CleanupCompact | log.CleanupDelete
	for name, settings := range map[string]log.Config{"in": {}, "a": {}, "b": purged, deletable: both, table: purged} {
		require.NoError(s, s.c.CreateTopic(s.Context(), name, topic.Config{Partitions: 3, ReplicationFactor: s.brokers, MinInSyncReplicas: min(2, s.brokers), Log: settings}))
	}
}

// care does one maintenance operation. If it fails because brokers are down, a later one succeeds.
func (s *txnStorm) care() {
	c, _ := s.cluster()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	p := int32(s.n(3))
	switch s.n(6) {
	case 0, 1, 2:
		for _, name := range []string{"b", deletable, table, "__consumer_offsets"} {
			if c.Roll(ctx, name) == nil {
				_, _ = c.Clean(ctx, name)
			}
		}
	case 3, 4:
		of := at(deletable, p)
		got, err := c.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{of: partition.Latest}, partition.ReadUncommitted)
		if end := got[of].Offset; err == nil && got[of].Err == nil && end > 0 {
			_, _ = c.DeleteRecords(ctx, map[record.TopicPartition]int64{of: end - int64(s.n(2)*s.n(int(min(end, 20))+1))})
		}
	default:
		if s.brokers < 3 {
			return
		}
		of := at([]string{"a", "b", deletable, table}[s.n(4)], p)
		without := int32(1 + s.n(3))
		to := slices.DeleteFunc([]int32{1, 2, 3}, func(b int32) bool { return b == without })
		for _, replicas := range [][]int32{to, {1, 2, 3}} {
			_ = c.Backend().AlterPartitionReassignments(ctx, replication.Reassignment{Partition: of, Replicas: replicas})
			_ = c.Backend().WaitReassigned(ctx, of)
		}
		s.count("moved")
	}
}

// cares maintains the logs until the storm ends.
func (s *txnStorm) cares() {
	for {
		if _, over := s.cluster(); over {
			return
		}
		s.care()
		time.Sleep(time.Duration(s.n(400)) * time.Millisecond)
	}
}

// watchStable records the last stable offset of a partition that loses its records. It ignores
// values up to the log start offset: the new leader of a replica that was down during
// DeleteRecords may have a lower start.
func (s *txnStorm) watchStable(of record.TopicPartition) {
	for {
		c, over := s.cluster()
		if over {
			return
		}
		before := c.Backend().Status(of.Topic, of.Partition).LogStartOffset
		got, err := c.ListOffsets(s.Context(), map[record.TopicPartition]partition.OffsetSpec{of: partition.Latest}, partition.ReadCommitted)
		after := c.Backend().Status(of.Topic, of.Partition).LogStartOffset
		if r := got[of]; err == nil && r.Err == nil && r.Offset > max(before, after) {
			s.history.add(txnEvent{read: &txnRead{of: of, stable: r.Offset}})
		}
		time.Sleep(time.Duration(20+s.n(200)) * time.Millisecond)
	}
}

// keeps puts and deletes keys of the table, one after the other. At the end it compares the table
// with the expected values.
func (s *txnStorm) keeps() {
	of, want := at(table, 0), map[string]string{}
	for i := 0; ; i++ {
		c, over := s.cluster()
		if over {
			s.compareTable(of, want)
			return
		}
		key, value := fmt.Sprint("k", s.n(5)), fmt.Sprint(i)
		var v []byte
		if delete(want, key); s.n(2) == 0 {
			v, want[key] = []byte(value), value
		}
		var b record.Builder
		b.Reset(0)
		b.AppendKV(time.Now().UnixMilli(), []byte(key), v, nil)
		batch, err := b.Build(record.None)
		require.NoError(s, err)
		for {
			done := make(chan error, 1)
			c.Backend().Produce(&partition.ProduceRequest{TopicPartition: of, Batch: slices.Clone(batch), Acks: record.AcksAll, Done: func(r partition.ProduceResult) { done <- r.Err }})
			if err = <-done; err == nil {
				break
			}
			// ErrUnexpectedEOF: the power is cut.
			if !errors.Is(err, io.ErrUnexpectedEOF) && !s.retried(err) {
				s.fail("table: %v", err)
				return
			}
			time.Sleep(10 * time.Millisecond)
			c, _ = s.cluster()
		}
		if s.n(4) == 0 {
			s.compareTable(of, want)
		}
		time.Sleep(time.Duration(s.n(200)) * time.Millisecond)
	}
}

func (s *txnStorm) compareTable(of record.TopicPartition, want map[string]string) {
	c, _ := s.cluster()
	got, next := map[string]string{}, int64(0)
	for {
		resp, err := c.Fetch(s.Context(), &partition.FetchRequest{Isolation: partition.ReadUncommitted,
			Partitions: []partition.FetchPartition{{TopicPartition: of, Offset: next, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
		if err != nil || resp.Partitions[0].Err != nil {
			return // a later call checks
		}
		if len(resp.Partitions[0].Bytes) == 0 {
			if next < resp.Partitions[0].HighWatermark {
				return // the leader does not have all committed offsets yet
			}
			break
		}
		for p := resp.Partitions[0].Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			require.NoError(s, err)
			for r, err := range b.All() {
				require.NoError(s, err)
				if delete(got, string(r.Key)); r.Value != nil {
					got[string(r.Key)] = string(r.Value)
				}
			}
			next, p = b.NextOffset(), p[n:]
		}
	}
	s.count("table")
	if !maps.Equal(got, want) {
		s.fail("table: it has %v, and ought to have %v", got, want)
	}
}
