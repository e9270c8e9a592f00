package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
)

// ErrPurged is the answer to a follower that lacks what compaction has taken from its leader's log,
// and may have what that has ended: records that a tombstone has deleted, a transaction that a
// marker has aborted. Nothing that is to come tells it of that, so it begins its log anew.
var ErrPurged = errors.New("partition: compaction has purged what the follower lacks")

// purgedFrom returns ErrPurged and where the follower has to begin, if it has to. What it has told
// of itself is void then.
func (p *Partition) purgedFrom(r *ReplicaFetch, start int64) (ReplicaRead, error) {
	purged := p.log.Purged()
	if !purged.IsMissedBy(r.Offset, r.Purged) {
		return ReplicaRead{}, nil
	}
	p.mu.Lock()
	if p.progress == nil || slices.Contains(p.progress.InSync(), r.Broker) {
		// Compaction stays below the high watermark, and who is in sync has all that is. It may
		// have to lead: whatever else is wrong, its log is not to be emptied.
		p.mu.Unlock()
		return ReplicaRead{}, nil
	}
	p.progress.Restarts(r.Broker, r.Incarnation)
	p.lowMovedLocked()
	p.mu.Unlock()
	return ReplicaRead{LogStart: start, Purged: purged}, p.wrap("read of a follower",
		fmt.Errorf("%w: below %d, it ends at %d", ErrPurged, purged.Below, r.Offset))
}

// PurgeBelow bounds what compaction purges: followers that are about to copy it need not begin anew
// then, nor does this one, if it still copies a log of which that is known.
func (o *owner) PurgeBelow() int64 {
	p := (*Partition)(o)
	purged, below := p.log.Purged().Below, int64(math.MaxInt64)
	p.mu.Lock()
	if p.progress != nil {
		below = p.progress.CopiedBelow(time.Since(p.opened))
	}
	p.mu.Unlock()
	if min(below, p.log.EndOffset()) < purged {
		return 0 // whatever is taken makes this log another one than that which is copied
	}
	return below
}

var _ log.Copied = (*owner)(nil)
