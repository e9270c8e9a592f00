package consumer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
)

// passingErrors are caused by elections, deletions and restarts: they are reported only when they
// last.
var passingErrors = []error{
	partition.ErrNotLeader, replication.ErrUnknownTopic, partition.ErrInconsistentTopicID, partition.ErrClosed,
	partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrOffsetNotAvailable, partition.ErrTimeout,
	group.ErrUnstableOffsetCommit, group.ErrCoordinatorNotAvailable, group.ErrNotCoordinator,
}

// passes reports whether an error is usually transient, unless the error decides itself.
func passes(err error) bool {
	if retriable, decided := retriable.Of(err); decided {
		return retriable
	}
	return slices.ContainsFunc(passingErrors, func(often error) bool { return errors.Is(err, often) })
}

// retry calls fn until it succeeds or its error is not Retriable, and for reportAfter at most after
// the first error.
func retry(ctx context.Context, fn func() error) error {
	var t trouble
	for {
		err := fn()
		if again, _ := retriable.Of(err); !again || ctx.Err() != nil || t.add(time.Now(), true) {
			return err
		}
		pause(ctx, t.backoff)
	}
}
