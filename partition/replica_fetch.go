package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/progress"
	"github.com/stratalog/strata/log"
)

// A ReplicaFetch is a follower's request to its leader for the records after the end of its log.
type ReplicaFetch struct {
	Broker      int32
	Incarnation int64 // broker epoch of the follower
	LeaderEpoch int32 // the epoch that it follows in
	// Offset is the end of the follower's log, Durable the end of its part on stable storage,
	// LogStart its first readable offset, and LastEpoch the leader epoch of its last record (-1:
	// none).
	Offset, Durable, LogStart int64
	LastEpoch                 int32
	// Purged is the Purged of the follower's log, or of the leader's log when the copy began.
	// Unseeded means that the log is empty and begins above 0, and that the follower lacks the
	// state of producers that have written below.
	Purged   log.Purged
	Unseeded bool
	// MaxBytes is the maximum size of Bytes, which the first batch may exceed; 0 means 1 MiB. A
	// negative value requests no batches, but counts as 0 if the high watermark waits for this
	// follower.
	MaxBytes int
	Buf      []byte // appended to; nil means a new buffer
}

// A ReplicaRead is the leader's response to a ReplicaFetch.
type ReplicaRead struct {
	HighWatermark int64
	LogStart      int64
	Purged        log.Purged // of the leader's log
	// Producers is a snapshot of the producer state for an unseeded follower, as of the start of
	// Bytes, or as of the follower's offset if there are no Bytes.
	Producers []byte
	// Diverging is set if the follower's log is not a prefix of the leader's. Then the follower
	// must truncate its log (see Converge), and there are no Bytes.
	Diverging *Divergence
	Bytes     []byte // Buf followed by whole, verified batches, which belong to the caller
	Withheld  bool   // there are batches, but MaxBytes is negative and no high watermark waits for them
}

// A Divergence is the point where a follower's log differs from its leader's. Kafka: the diverging
// epoch of a fetch response (KIP-595).
type Divergence = progress.Divergence

// ReadReplica serves the fetch of a follower. The follower's position counts for the high watermark
// and the ISR, unless its log diverges. ReadReplica returns all that the leader has written, on
// stable storage or not. It may read from the disk, but does not wait for records: Leadership.Wake
// is called when the follower should fetch again.
//
// Errors: ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrNotReplica,
// ErrStaleIncarnation, ErrCorrupt, ErrClosed. ErrOffsetOutOfRange is returned if the follower's end
// is below the log start, which the result has, or if the leader lacks the follower's last epoch.
// ErrPurged is returned if the follower's end is below the purged records; see StartAt.
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
			p.met(err)
			p.disk.readFailed(err)
			return ReplicaRead{}, p.wrap("read of a follower", err)
		}
		p.disk.reads.Worked()
	}
	if r.Unseeded {
		if res.Producers, err = p.producersFor(r.Offset, res.Bytes[len(r.Buf):]); err != nil {
			p.met(err)
			return ReplicaRead{}, p.wrap("read of a follower", err)
		}
	}
	if p.leaderEpoch.Load() != epoch { // the batches read may have been cut off since
		return ReplicaRead{}, p.wrap("read of a follower", p.notLeading())
	}
	if purged, err := p.purgedFrom(&r, start); err != nil { // purged since the first check
		return purged, err
	}
	return res, nil
}

// reported applies the position that a follower reports, whose log is a prefix of this one. It
// reports whether the high watermark waits for the follower then.
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
		// Followers serve their records only up to the high watermark that they know.
		wake()
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
