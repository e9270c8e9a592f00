package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// connect acquires the transactional id, finds the position, and opens the consumer.
func (e *engine) connect(drain bool) (err error) {
	ctx := e.ctx
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.version, err = e.source.WaitMetadata(ctx, -1); err != nil {
		return err
	}
	for _, fl := range e.flows {
		id, n, err := e.describeSource(ctx, fl)
		if err != nil {
			return err
		}
		e.mu.Lock()
		fl.id, fl.missing = id, 0
		fl.reached, fl.state = make([]reached, n), make([]progress, n)
		e.mu.Unlock()
	}
	if err := e.ensurePositions(ctx); err != nil {
		return err
	}
	if e.claimed { // it has lost the transactional id
		if err := e.checkClaims(); err != nil {
			return err
		}
	}
	e.producer, err = producer.New(e.target, producer.Config{
		ClientID: idPrefix + e.cfg.ID, TransactionalID: idPrefix + e.cfg.ID, Compression: e.cfg.Compression,
		DeliveryTimeout: deliveryWait, RequestTimeout: requestWait, TransactionTimeout: transactionWait, MaxBlock: 15 * time.Second,
		NegativeTimestamps: true, MaxRequestBytes: largestRecord, MaxBufferedBytes: largestRecord + 1<<20,
	})
	if err != nil {
		return err
	}
	if err := e.producer.InitTransactions(ctx); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	e.verify = false
	if err := e.findPositions(ctx); err != nil {
		return err
	}
	if drain && e.ends == nil {
		e.ends = map[*flow][]int64{}
		for _, fl := range e.flows {
			if e.ends[fl], err = offsets(ctx, e.source, fl.source, len(fl.reached), partition.Latest, partition.ReadCommitted); err != nil {
				return err
			}
		}
	}
	assign := record.Offsets{}
	for _, fl := range e.flows {
		for p, at := range fl.reached {
			assign[record.TopicPartition{Topic: fl.source, Partition: int32(p)}] = at.next
		}
	}
	bytes := batchBytes
	if e.cfg.BytesPerSecond > 0 {
		bytes = min(bytes, max(e.cfg.BytesPerSecond, 1))
	}
	e.consumer, err = consumer.New(e.source, consumer.Config{
		ClientID: idPrefix + e.cfg.ID, Assign: assign, Reset: consumer.Fail(), MaxBytes: bytes, PartitionBytes: min(bytes, 1<<20),
		MaxPollRecords: min(batchRecords, cmp.Or(e.cfg.RecordsPerSecond, batchRecords)),
	})
	return err
}

// describeSource returns the id and the number of partitions of a source topic.
func (f *Forward) describeSource(ctx context.Context, fl *flow) (topic.ID, int, error) {
	md, err := f.source.Metadata(ctx, fl.source)
	if err != nil {
		return topic.ID{}, 0, fmt.Errorf("source: %w", err)
	}
	switch t := md.Topics[fl.source]; {
	case t.Err != nil && (fl.id != topic.ID{}) && isUnknown(t.Err):
		return topic.ID{}, 0, f.stop(fl.source, -1, -1, fmt.Errorf("%w at the source: %w", ErrTopicReplaced, t.Err))
	case t.Err != nil && isUnknown(t.Err):
		return topic.ID{}, 0, f.stop(fl.source, -1, -1, fmt.Errorf("source: %w", t.Err))
	case t.Err != nil:
		return topic.ID{}, 0, fmt.Errorf("source: topic %s: %w", fl.source, t.Err)
	default:
		return t.ID, len(t.Partitions), nil
	}
}

// findPositions continues at the stored positions, and stores those of topics that have none.
func (e *engine) findPositions(ctx context.Context) error {
	if err := e.awaitPositions(ctx); err != nil {
		return err
	}
	positions := make([]*positionValue, len(e.flows)) // nil: none
	for i, fl := range e.flows {
		stored, err := e.readPosition(ctx, fl.source)
		if err != nil {
			return err
		}
		if positions[i] = stored; stored != nil {
			if err := e.belongs(fl, stored); err != nil {
				return err
			}
			if e.claimed && stored.Run != e.id {
				return e.fenced(fl)
			}
		}
	}
	if err := e.ensureTargets(ctx, positions); err != nil {
		return err
	}
	claims := map[*flow][]reached{}
	for i, fl := range e.flows {
		var err error
		if stored := positions[i]; stored != nil {
			err = e.resume(ctx, fl, stored)
		} else {
			err = e.beginOrResume(ctx, fl)
		}
		if err != nil {
			return err
		}
		claims[fl] = fl.reached
	}
	// The claim precedes the first record: from now on a missing position means that it was lost.
	if err := e.attempt(claims, nil); err != nil {
		return err
	}
	e.claimed = true
	return nil
}

// beginOrResume begins a topic that had no position. A mirror with the same ID may have stored one
// since, and its records: then this one continues there.
func (e *engine) beginOrResume(ctx context.Context, fl *flow) error {
	missing := e.begin(ctx, fl)
	if !errors.Is(missing, ErrNoPosition) {
		return missing
	}
	if err := e.awaitPositions(ctx); err != nil {
		return err
	}
	stored, err := e.readPosition(ctx, fl.source)
	switch {
	case err != nil:
		return err
	case stored == nil:
		return missing
	case e.claimed && stored.Run != e.id:
		return e.fenced(fl)
	}
	if err := e.belongs(fl, stored); err != nil {
		return err
	}
	return e.resume(ctx, fl, stored)
}

// checkClaims returns an error if another mirror has claimed the positions.
func (e *engine) checkClaims() error {
	if err := e.awaitPositions(e.work); err != nil {
		return err
	}
	for _, fl := range e.flows {
		stored, err := e.readPosition(e.work, fl.source)
		if err != nil {
			return err
		}
		if stored == nil || stored.Run != e.id {
			return e.fenced(fl)
		}
	}
	return nil
}

func (f *Forward) fenced(fl *flow) error {
	return f.stop(fl.source, -1, -1, fmt.Errorf("another mirror with this ID has started: %w", ErrFenced))
}
