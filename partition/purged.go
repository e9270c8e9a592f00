package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
)

// ErrPurged is returned to a follower that lacks records that compaction has removed from its
// leader's log, and may have records that those ended: a deleted record without its tombstone, or
// an aborted transaction without its marker. No later record would correct that, so the follower
// empties its log and copies it again.
var ErrPurged = errors.New("partition: the follower lacks records that compaction has purged")

// purgedFrom returns ErrPurged and the offset at which the follower has to begin, if it has to. The
// position that it has reported is void then.
func (p *Partition) purgedFrom(r *ReplicaFetch, start int64) (ReplicaRead, error) {
	purged := p.log.Purged()
	if !purged.IsMissedBy(r.Offset, r.Purged) {
		return ReplicaRead{}, nil
	}
	p.mu.Lock()
	if p.progress == nil || slices.Contains(p.progress.InSync(), r.Broker) {
		// Compaction stays below the high watermark, and an in-sync replica has all records below
		// it. It may have to lead, so its log must not be emptied for any other reason either.
		p.mu.Unlock()
		return ReplicaRead{}, nil
	}
	p.progress.Restarts(r.Broker, r.Incarnation)
	p.lowMovedLocked()
	p.mu.Unlock()
	return ReplicaRead{LogStart: start, Purged: purged}, p.wrap("read of a follower",
		fmt.Errorf("%w: below %d, it ends at %d", ErrPurged, purged.Below, r.Offset))
}

// PurgeBelow limits purging by compaction, so that followers which are about to copy the log need
// not start again. It also protects this replica while it copies a log whose Purged it has.
func (o *owner) PurgeBelow() int64 {
	p := (*Partition)(o)
	purged, below := p.log.Purged().Below, int64(math.MaxInt64)
	p.mu.Lock()
	if p.progress != nil {
		below = p.progress.CopiedBelow(time.Since(p.opened))
	}
	p.mu.Unlock()
	if min(below, p.log.EndOffset()) < purged {
		return 0 // any purge would make this log differ from the copied one
	}
	return below
}

var _ log.Copied = (*owner)(nil)
