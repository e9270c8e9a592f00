package shardtopic

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// A Log is one partition of a Topic, wherever it is led, in one leader epoch. It implements
// coordinator.Log.
type Log struct {
	c     *replication.Cluster
	tp    record.TopicPartition
	epoch int32
}

// Append implements coordinator.Log. There is no timeout: an append that was given up and then
// succeeds would be in the log unknown to its coordinator.
func (l *Log) Append(batch []byte, done func(error)) { l.AppendMarker(batch, 0, done) }

// AppendMarker implements coordinator.Log.
func (l *Log) AppendMarker(marker []byte, version int16, done func(error)) {
	l.c.Produce(&partition.ProduceRequest{
		TopicPartition: l.tp, Batch: marker, Acks: record.AcksAll, LeaderEpoch: &l.epoch, Coordinator: true, TxnVersion: version,
		Done: func(r partition.ProduceResult) { done(appendError(r)) },
	})
}

// GuardTransaction implements coordinator.Log. If the leader epoch has changed, done gets the error
// of an append in the old one.
func (l *Log) GuardTransaction(w partition.TxnWrite, done func(error)) {
	if _, epoch, err := l.c.LeaderOf(l.tp); err == nil && epoch != l.epoch {
		done(appendError(partition.ProduceResult{BaseOffset: -1, Err: fmt.Errorf("%w: %d, now it is %d", partition.ErrFencedLeaderEpoch, l.epoch, epoch)}))
		return
	}
	l.c.GuardTransaction(l.tp, w, func(err error) { done(guardError(err)) })
}

// guardError is appendError, except that errors about the producer's transaction are returned
// unchanged.
func guardError(err error) error {
	for _, its := range []error{partition.ErrInvalidProducerEpoch, partition.ErrProducerIDMapping, partition.ErrTxnAbortable,
		partition.ErrInvalidTxnState, partition.ErrConcurrentTransactions} {
		if errors.Is(err, its) {
			return err
		}
	}
	return appendError(partition.ProduceResult{BaseOffset: -1, Err: err})
}

// appendError maps the error of an append as Kafka does. Errors that may end on this broker, such
// as missing replicas, become ErrNotAvailable. Most others become ErrNotLeader, so that the broker
// gives up the shard.
func appendError(r partition.ProduceResult) error {
	err := r.Err
	switch {
	case err == nil:
		return nil
	case errors.Is(err, partition.ErrNotEnoughReplicas), errors.Is(err, partition.ErrNotEnoughReplicasAfterAppend), errors.Is(err, partition.ErrTimeout),
		errors.Is(err, replication.ErrUnknownTopic):
		err = fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
	case errors.Is(err, partition.ErrRecordTooLarge), errors.Is(err, partition.ErrBatchTooLarge):
		err = fmt.Errorf("%w: %w", machine.ErrTooLarge, err)
	default:
		err = fmt.Errorf("%w: %w", machine.ErrNotLeader, moving(err))
	}
	if r.BaseOffset >= 0 || errors.Is(err, partition.ErrNotLeaderAfterAppend) {
		err = fmt.Errorf("%w: %w", err, machine.ErrUncertain)
	}
	return err
}

// moving marks an error which means that the leader epoch has ended or has not begun yet.
func moving(err error) error {
	for _, cause := range []error{
		partition.ErrNotLeader, partition.ErrNotLeaderAfterAppend, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch,
		partition.ErrClosed, replication.ErrClosed,
	} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w: %w", machine.ErrMoving, err)
		}
	}
	return err
}

// Read implements coordinator.Log.
func (l *Log) Read(dst []byte, from int64, max int) ([]byte, error) {
	resp, err := l.c.Fetch(context.Background(), &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: l.tp, Offset: from, MaxBytes: max, CurrentLeaderEpoch: l.epoch, LastFetchedEpoch: -1}},
		Isolation:  partition.ReadUncommitted,
	})
	if err == nil {
		err = resp.Partitions[0].Err
	}
	if err != nil {
		return nil, moving(err)
	}
	return append(dst, resp.Partitions[0].Bytes...), nil
}

// Bounds implements coordinator.Log. The high watermark of a replica that begins to lead lags
// behind what earlier leaders have confirmed, all of which is below the start of its epoch.
func (l *Log) Bounds() (start, end int64, err error) {
	s := l.c.Status(l.tp.Topic, l.tp.Partition)
	if s.Err != nil {
		return 0, 0, moving(s.Err)
	}
	_, begin, err := l.c.EpochEnd(context.Background(), l.tp, l.epoch, l.epoch-1)
	if err != nil {
		return 0, 0, moving(err)
	}
	if s.HighWatermark < begin {
		return 0, 0, fmt.Errorf("%w: committed up to %d, the epoch began at %d", machine.ErrMoving, s.HighWatermark, begin)
	}
	return s.LogStartOffset, s.HighWatermark, nil
}
