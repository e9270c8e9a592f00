package follow

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A Source is a leader's replica, as a follower reaches it.
type Source interface {
	// Read answers at once. ErrNotReady says that the leader wakes the place when it can answer, a
	// *HeldBack that what is told is right, but batches are left out.
	Read(partition.ReplicaFetch) (partition.ReplicaRead, error)
	// Watch has p woken, from now on until Unwatch, whenever there may be something new.
	Watch(p *Place)
	Unwatch(p *Place)
}

// A Target is a follower's replica. Its methods but CopyFrom may block for the disk.
type Target interface {
	// Position returns how far the replica is; the fetcher adds who and in which epoch.
	Position() partition.ReplicaFetch
	// CopyFrom appends what the leader has sent. It does not wait. See partition.Partition.
	CopyFrom(*partition.Copy)
	// Converge cuts the log where it differs from the leader's, which has answered ask.
	Converge(ask partition.ReplicaFetch, d partition.Divergence) error
	// StartAt empties the log, which goes on at offset, where that of the leader begins, which has
	// answered ask, and from which purged has been purged.
	StartAt(ask partition.ReplicaFetch, offset int64, purged log.Purged) error
	// Seed makes an unseeded log begin at offset with producers, which the leader has answered ask
	// with.
	Seed(ask partition.ReplicaFetch, offset int64, producers []byte) error
	// AdvanceStart moves the log start with that of the leader of an epoch.
	AdvanceStart(epoch int32, offset int64) error
}

// ErrNotReady is returned by a Source that wakes the place when it can answer.
var ErrNotReady = errors.New("follow: the leader is not ready")

// HeldBack is returned by a Source that leaves out batches for the sake of a quota, with the rest
// of the answer.
type HeldBack struct{ Until time.Time }

func (h *HeldBack) Error() string {
	return "follow: held back until " + h.Until.Format(time.RFC3339Nano)
}

// A Following is one partition to be copied.
type Following struct {
	Partition record.TopicPartition
	Epoch     int32 // of the leader
	Source    Source
	Target    Target
}

// A Place is that of a partition in a Fetcher.
type Place struct {
	Following
	f     *Fetcher
	woken atomic.Bool // since it was last asked for; set by anyone, taken by the fetcher

	// Guarded by f.mu:
	phase    phase
	awaits   bool // while late: a wake ends the waiting
	held     bool // while late: by a quota, which LetGo ends; it has not failed
	letGo    bool // while busy: LetGo came meanwhile, and the answer may be older
	retryAt  time.Time
	failures int

	// Of whoever has it while it is busy:
	told        position // what the leader has heard last
	hw          int64    // that the follower has heard last
	leaderStart int64    // that the leader had last
	startDue    int64    // that the follower has to move to when it has the batch that it is in; or 0
}

type position struct{ end, durable, start int64 }

var untold = position{-1, -1, -1}

func told(ask partition.ReplicaFetch) position {
	return position{ask.Offset, ask.Durable, ask.LogStart}
}

// phase is where a Place is.
type phase uint8

const (
	idle  phase = iota // until it is woken
	ready              // in Fetcher.ready
	busy               // asked for, or what came is being appended
	late               // in Fetcher.late: it failed or is held back, and waits for retryAt
	gone               // it is copied no longer
)

// Wake says that the leader may have something new. It does not block, and may be called with any
// lock held but the Fetcher's.
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
