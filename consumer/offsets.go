package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// errNoAnswer is the error of partitions that the result of ListOffsets lacks.
var errNoAnswer = fmt.Errorf("consumer: no answer from the leader: %w", partition.ErrTimeout)

// listOffsets is ListOffsets of b. The result has every partition of query.
func listOffsets(ctx context.Context, b LogBackend, query map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	answers, err := b.ListOffsets(ctx, query, iso)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	got := make(map[record.TopicPartition]partition.OffsetResult, len(query))
	for tp := range query {
		res, ok := answers[tp]
		if !ok {
			res.Err = errNoAnswer
		}
		got[tp] = res
	}
	return got, nil
}

// An offsetLister is listOffsets or awaitOffsets.
type offsetLister = func(context.Context, LogBackend, map[record.TopicPartition]partition.OffsetSpec, partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error)

// maxOffsetWait is the longest pause between two requests for an unavailable offset.
const maxOffsetWait = 100 * time.Millisecond

// awaitOffsets is listOffsets, repeated for partitions whose offset may be available later.
func awaitOffsets(ctx context.Context, b LogBackend, query map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	list := func(query map[record.TopicPartition]partition.OffsetSpec) (some map[record.TopicPartition]partition.OffsetResult, err error) {
		err = retry(ctx, func() (err error) {
			some, err = listOffsets(ctx, b, query, iso)
			return err
		})
		return some, err
	}
	got, err := list(query)
	begun := time.Now()
	for wait := minBackoff; err == nil; wait = min(2*wait, maxOffsetWait) {
		missing := map[record.TopicPartition]partition.OffsetSpec{}
		for tp, res := range got {
			if comesLater(res.Err, time.Since(begun)) {
				missing[tp] = query[tp]
			}
		}
		if len(missing) == 0 {
			break
		}
		pause(ctx, wait)
		if err = ctx.Err(); err == nil {
			var more map[record.TopicPartition]partition.OffsetResult
			more, err = list(missing)
			maps.Copy(got, more)
		}
	}
	return got, err
}

// comesLater reports whether an offset is worth another request: its leader did not have the high
// watermark yet, or there was no leader or no response, which may be transient, too. A missing
// topic is reported immediately.
func comesLater(err error, waited time.Duration) bool {
	passing := passes(err) && !errors.Is(err, replication.ErrUnknownTopic)
	return errors.Is(err, partition.ErrOffsetNotAvailable) || passing && waited < reportAfter
}
