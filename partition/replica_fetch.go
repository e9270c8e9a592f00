package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/progress"
	"github.com/stratalog/strata/log"
)

// A ReplicaFetch is a follower's question to its leader: what comes behind what I have?
type ReplicaFetch struct {
	Broker      int32
	Incarnation int64 // broker epoch of the follower
	LeaderEpoch int32 // the one that it follows
	// Offset is the end of the follower's log, Durable what is on its stable storage, LastEpoch the
	// leader epoch of its last record (-1: none), LogStart its first readable offset.
	Offset, Durable, LogStart int64
	LastEpoch                 int32
	// Purged is what compaction has taken from the follower's log, or had taken from its leader's
	// when the copy was begun. Unseeded: the log is empty, begins above 0, and nothing is known of
	// the producers that have written below.
	Purged   log.Purged
	Unseeded bool
	// MaxBytes may be exceeded by the first batch; 0: 1 MiB. Negative: no batches, unless the high
	// watermark waits for this follower, which is 0 then.
	MaxBytes int
	Buf      []byte // appended to; nil: a fresh buffer
}

// A ReplicaRead is the leader's answer.
type ReplicaRead struct {
	HighWatermark int64
	LogStart      int64
	Purged        log.Purged // of the leader's log
	// Producers, of an answer to an unseeded follower, is the producer state where Bytes begin, or
	// at the follower's offset if there are none, as a snapshot.
	Producers []byte
	// Diverging, unless it is nil: the follower's log is no prefix of the leader's. It must be cut
	// (see Converge), and there are no bytes.
	Diverging *Divergence
	Bytes     []byte // Buf with whole, verified batches behind it, which belong to the caller
	Withheld  bool   // there would be batches, but MaxBytes is negative and nobody waits
}

// A Divergence says where a follower's log differs from its leader's. Kafka: the diverging epoch of
// a fetch answer (KIP-595).
type Divergence = progress.Divergence

// ReadReplica answers a follower. What it says of itself counts for the high watermark and the
// in-sync set, unless its log diverges. It shows all that the leader has written, also what is not
// on stable storage yet. It may read from the disk, but waits for nothing: Leadership.Wake tells
// when to ask again.
//
// Errors: ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrNotReplica,
// ErrStaleIncarnation, ErrOffsetOutOfRange if the follower's end is below the log start, which is
// told, or, with an epoch that the leader does not know, anywhere; ErrPurged if it is below what
// compaction has purged, see StartAt; ErrCorrupt, ErrClosed.
func (p *Partition) ReadReplica(r ReplicaFetch) (ReplicaRead, error) {
	epoch, err := p.checkEpoch(r.LeaderEpoch)
	if err != nil {
		return ReplicaRead{}, p.wrap("read of a follower", err)
	}
	start, end := p.log.StartOffset(), p.log.EndOffset()
	res := ReplicaRead{HighWatermark: p.hw.Load(), LogStart: start, Bytes: r.Buf}
	d, diverges, known := progress.Compare(p.lineage(), r.LastEpoch, r.Offset)
	switch {
	case diverges:
		res.Diverging = &d
		return res, nil
	case !known || r.Offset < start || r.Offset > end:
		return ReplicaRead{LogStart: start, Purged: p.log.Purged()}, p.wrap("read of a follower", fmt.Errorf("%w: at %d in epoch %d, the leader has [%d, %d)", ErrOffsetOutOfRange, r.Offset, r.LastEpoch, start, end))
	}
	if res, err := p.purgedFrom(&r, start); err != nil {
		return res, err
	}
	awaited, err := p.reported(&r, epoch)
	if err != nil {
		return ReplicaRead{}, p.wrap("read of a follower", err)
	}
	res.HighWatermark = p.hw.Load()
	switch {
	case r.Offset < end && r.MaxBytes < 0 && !awaited:
		res.Withheld = true
	case r.Offset < end:
		if res.Bytes, err = p.log.ReadUpTo(r.Buf, r.Offset, defaultMaxBytes(r.MaxBytes), end); err != nil {
			p.disk.reads.Failed(err)
			return ReplicaRead{}, p.wrap("read of a follower", err)
		}
		p.disk.reads.Worked()
	}
	if r.Unseeded {
		if res.Producers, err = p.producersFor(r.Offset, res.Bytes[len(r.Buf):]); err != nil {
			return ReplicaRead{}, p.wrap("read of a follower", err)
		}
	}
	if p.leaderEpoch.Load() != epoch { // what was read may have been cut off meanwhile
		return ReplicaRead{}, p.wrap("read of a follower", p.notLeading())
	}
	if purged, err := p.purgedFrom(&r, start); err != nil { // meanwhile, and from what was read
		return purged, err
	}
	return res, nil
}

// reported takes in what a follower, whose log is a prefix of this one, says of itself. It tells
// whether the high watermark waits for it then.
func (p *Partition) reported(r *ReplicaFetch, epoch int32) (awaited bool, err error) {
	now := time.Since(p.opened)
	p.mu.Lock()
	if p.progress == nil || p.leaderEpoch.Load() != epoch {
		p.mu.Unlock()
		return false, p.notLeading()
	}
	was := p.hw.Load()
	err = p.progress.Reported(progress.Report{
		Broker: r.Broker, Incarnation: r.Incarnation, Position: progress.Position{End: r.Offset, Durable: r.Durable}, LogStart: r.LogStart,
	}, now)
	var d due
	var w want
	if err == nil {
		d = p.progressedLocked()
		w = p.wantLocked(p.progress.Expand())
		awaited = p.progress.AwaitsFollower(r.Broker, now)
	}
	wake := p.wake
	moved := p.hw.Load() > was
	p.mu.Unlock()
	d.run()
	p.publish()
	w.run()
	if moved && wake != nil {
		wake() // followers show what they have up to the high watermark that they know
	}
	return awaited, err
}

// lineage is the leader epochs of the log.
func (p *Partition) lineage() progress.Lineage { return p.log.Epochs() }

// Errors of a follower's fetch.
var (
	ErrNotReplica       = progress.ErrNotReplica
	ErrStaleIncarnation = progress.ErrStaleIncarnation
)

var errSplit = errors.New("not whole batches")
