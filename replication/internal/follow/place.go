package follow

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A Source is a leader's replica, as a follower accesses it.
type Source interface {
	// Read returns at once. ErrNotReady means that the leader will wake the place when it has a
	// response. A *HeldBack means that the response is valid, but batches are left out.
	Read(partition.ReplicaFetch) (partition.ReplicaRead, error)
	// Watch makes the leader wake p, from now on until Unwatch, whenever a Read may return
	// something new.
	Watch(p *Place)
	Unwatch(p *Place)
}

// A Target is a follower's replica. All methods except CopyFrom may block for the disk.
type Target interface {
	// Position returns the position of the replica; the fetcher adds the broker and the epoch.
	Position() partition.ReplicaFetch
	// CopyFrom appends the batches that the leader has sent. It does not wait. See
	// partition.Partition.
	CopyFrom(*partition.Copy)
	// Converge truncates the log where it diverges from the leader's. The leader responded with d
	// to the given request.
	Converge(ask partition.ReplicaFetch, d partition.Divergence) error
	// StartAt empties the log, which continues at offset, the leader's log start. The leader
	// responded to the given request, and purged is the Purged of its log.
	StartAt(ask partition.ReplicaFetch, offset int64, purged log.Purged) error
	// Seed makes an unseeded log begin at offset with the state of producers, which the leader
	// sent in response to the given request.
	Seed(ask partition.ReplicaFetch, offset int64, producers []byte) error
	// AdvanceStart moves the log start to offset, the log start of the leader in an epoch.
	AdvanceStart(epoch int32, offset int64) error
}

// ErrNotReady is returned by a Source that will wake the place when it has a response.
var ErrNotReady = errors.New("follow: the leader is not ready")

// A HeldBack is returned, with the rest of the response, by a Source that leaves out batches
// because of a quota.
type HeldBack struct{ Until time.Time }

func (h *HeldBack) Error() string {
	return "follow: held back until " + h.Until.Format(time.RFC3339Nano)
}

// A Following is one partition to copy.
type Following struct {
	Partition record.TopicPartition
	Epoch     int32 // of the leader
	Source    Source
	Target    Target
}

// A Place is the state of a partition in a Fetcher.
type Place struct {
	Following
	f     *Fetcher
	woken atomic.Bool // since the last fetch; set by any goroutine, cleared by the fetcher

	// Guarded by f.mu:
	phase    phase
	awaits   bool // while late: a wake ends the waiting
	held     bool // while late: held back by a quota, which LetGo ends; it has not failed
	letGo    bool // while busy: LetGo was called meanwhile, and the response may be older
	retryAt  time.Time
	failures int

	// Owned by the goroutine that processes the place while it is busy:
	told        position // the position last reported to the leader
	hw          int64    // the high watermark last reported to the follower
	leaderStart int64    // the leader's last known log start
	startDue    int64    // the log start to move to when the follower has the batch that contains it; or 0
}

type position struct{ end, durable, start int64 }

var untold = position{-1, -1, -1}

func told(ask partition.ReplicaFetch) position {
	return position{ask.Offset, ask.Durable, ask.LogStart}
}

// phase is the state of a Place.
type phase uint8

const (
	idle  phase = iota // until it is woken
	ready              // in Fetcher.ready
	busy               // being fetched or appended
	late               // in Fetcher.late: it failed or is held back, and waits for retryAt
	gone               // it is not copied any more
)

// Wake reports that a fetch from the leader may return something new. It does not block, and may be
// called with any lock held except the Fetcher's.
func (p *Place) Wake() {
	if p.woken.Swap(true) {
		return
	}
	f := p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case p.phase == idle:
		f.pushLocked(p)
	case p.phase == late && p.awaits:
		f.notLateLocked(p)
		f.pushLocked(p)
	}
}
