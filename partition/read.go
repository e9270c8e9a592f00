package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/record"
)

// defaultReadBytes is what a read without a limit returns at most (Kafka: max.partition.fetch.bytes
// of the consumer).
const defaultReadBytes = 1 << 20

// A ReadRequest asks for what is in the partition now.
type ReadRequest struct {
	Offset             int64 // first record wanted
	MaxBytes           int   // the first batch may exceed it; 0: 1 MiB
	Isolation          Isolation
	CurrentLeaderEpoch int32  // epoch that the reader believes in; -1: not checked
	Buf                []byte // appended to; nil: a fresh buffer

	// Partial has the result end where the limit does, within a batch if there is one there: the
	// reader drops that. The first batch is whole. It is what clients of Kafka meet, whose broker
	// hands out ranges of files.
	Partial bool
}

// A ReadResult is what was read.
type ReadResult struct {
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	LeaderEpoch      int32
	Aborted          []AbortedTxn // nil under ReadUncommitted or if there is none
	// Bytes is Buf with whole, verified batches behind it, the last of which is cut off if that was
	// asked for. It belongs to the caller.
	Bytes []byte
}

// Bound returns the end of what an isolation level shows: where the next read can find something
// new.
func (r *ReadResult) Bound(i Isolation) int64 {
	if i == ReadUncommitted {
		return r.HighWatermark
	}
	return r.LastStableOffset
}

// Read returns whole batches from the one that holds req.Offset, below the high watermark or, read
// committed, below the last stable offset. The first batch may begin below the offset asked for. At
// or above that bound, but not above the log end, it returns no bytes. It may read from the disk,
// but it waits for nothing.
//
// Errors: ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrOffsetOutOfRange,
// ErrCorrupt, ErrClosed.
func (p *Partition) Read(req ReadRequest) (ReadResult, error) {
	epoch, err := p.checkEpoch(req.CurrentLeaderEpoch)
	if err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	return p.readAs(&req, epoch, func() error {
		if p.leaderEpoch.Load() != epoch { // truncated under our hands
			return p.notLeading()
		}
		return nil
	})
}

// Glance is a Read of nothing: it tells the watermarks. epoch is the one that the reader believes
// in, -1: not checked. Errors: ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch,
// ErrClosed.
func (p *Partition) Glance(epoch int32) (ReadResult, error) {
	epoch, err := p.checkEpoch(epoch)
	if err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	hw, lso, start := p.bounds()
	return ReadResult{HighWatermark: hw, LastStableOffset: lso, LogStartOffset: start, LeaderEpoch: epoch}, nil
}

// readAs reads in a leader epoch. When a read has failed, cause says whether the role of this
// replica has changed meanwhile.
func (p *Partition) readAs(req *ReadRequest, epoch int32, cause func() error) (ReadResult, error) {
	end := p.log.EndOffset()
	hw, lso, start := p.bounds()
	res := ReadResult{HighWatermark: hw, LastStableOffset: lso, LogStartOffset: start, LeaderEpoch: epoch, Bytes: req.Buf}
	switch bound := res.Bound(req.Isolation); {
	case req.Offset < start || req.Offset > max(end, hw):
		return ReadResult{}, p.wrap("read", ErrOffsetOutOfRange)
	case req.Offset >= bound:
		return res, nil
	default:
		return res, p.readUpTo(req, &res, bound, cause)
	}
}

func defaultMaxBytes(n int) int {
	if n <= 0 {
		return defaultReadBytes
	}
	return n
}

// readUpTo fills in the bytes below bound, and which transactions in them were aborted.
func (p *Partition) readUpTo(req *ReadRequest, res *ReadResult, bound int64, cause func() error) error {
	var err error
	if res.Bytes, err = p.log.ReadUpTo(req.Buf, req.Offset, defaultMaxBytes(req.MaxBytes), bound); err != nil {
		if changed := cause(); changed != nil {
			err = changed
		}
		*res = ReadResult{}
		return p.wrap("read", err)
	}
	if req.Isolation == ReadCommitted && p.anyAborted.Load() {
		if res.Aborted, err = p.aborted(req.Offset, res.Bytes[len(req.Buf):]); err != nil {
			*res = ReadResult{}
			return p.wrap("read", err)
		}
	}
	if req.Partial {
		p.fill(req, res, bound)
	}
	p.stats.reads.Add(1)
	p.stats.bytesOut.Add(int64(len(res.Bytes) - len(req.Buf)))
	return nil
}

// fill adds as much of the next batch as the limit leaves room for. What is wrong with that batch
// is told to who reads from it on.
func (p *Partition) fill(req *ReadRequest, res *ReadResult, bound int64) {
	start, limit := len(req.Buf), len(req.Buf)+defaultMaxBytes(req.MaxBytes)
	if len(res.Bytes) == start || len(res.Bytes) >= limit {
		return
	}
	last, err := record.ParseHeader(lastBatch(res.Bytes[start:]))
	if err != nil || last.NextOffset() >= bound {
		return
	}
	if more, err := p.log.ReadUpTo(res.Bytes, last.NextOffset(), 1, bound); err == nil && len(more) > limit {
		res.Bytes = more[:limit]
	}
}

// checkEpoch returns the leader epoch if this replica leads and a reader that believes in epoch
// (-1: any) may read.
func (p *Partition) checkEpoch(epoch int32) (int32, error) {
	current := p.leaderEpoch.Load()
	if current < 0 || p.closing.Load() || p.resigned.Load() {
		return -1, p.notLeading()
	}
	if err := CompareEpochs(epoch, current); err != nil {
		return -1, err
	}
	return current, nil
}

// CompareEpochs returns what is wrong with the leader epoch that a client believes in, where epoch
// is the right one: ErrFencedLeaderEpoch if a later one has begun, ErrUnknownLeaderEpoch if it has
// not begun as far as is known here. nil: it is the same, or -1, which stands for any. Kafka:
// Partition.checkCurrentLeaderEpoch (KIP-320).
func CompareEpochs(believed, epoch int32) error {
	switch {
	case believed >= 0 && believed < epoch:
		return ErrFencedLeaderEpoch
	case believed > epoch:
		return ErrUnknownLeaderEpoch
	}
	return nil
}

// notLeading says why this replica takes no appends and answers no reads.
func (p *Partition) notLeading() error {
	if p.closing.Load() && !p.resigned.Load() {
		return ErrClosed
	}
	return ErrNotLeader
}

// ListOffset finds an offset by meaning or by time. Under either isolation level records beyond its
// bound do not exist: the answer is offset -1 then, as it is for a time after the last record. It
// may read from the disk. As long as a new leader does not know how far its predecessor has
// acknowledged records, what depends on that is ErrOffsetNotAvailable.
func (p *Partition) ListOffset(spec OffsetSpec, isolation Isolation) (OffsetResult, error) {
	epoch, err := p.checkEpoch(-1)
	if err != nil {
		return OffsetResult{}, p.wrap("list offsets", err)
	}
	hw, lso, start := p.bounds()
	bound := lso
	if isolation == ReadUncommitted {
		bound = hw
	}
	complete := p.complete()
	switch {
	case spec == Latest && !complete:
		return OffsetResult{}, p.wrap("list offsets", ErrOffsetNotAvailable)
	case spec == Latest:
		return OffsetResult{Offset: bound, TimestampMs: -1, LeaderEpoch: epoch}, nil
	case spec == Earliest:
		return OffsetResult{Offset: start, TimestampMs: -1, LeaderEpoch: p.epochAt(start)}, nil
	}
	offset, ts := int64(-1), int64(-1)
	switch {
	case spec == MaxTimestamp:
		offset, ts, err = p.log.MaxTimestampOffset()
	case spec >= 0:
		offset, ts, err = p.log.OffsetForTimestamp(time.UnixMilli(int64(spec)))
	default:
		err = errors.New("unknown offset spec")
	}
	switch {
	case err != nil:
		return OffsetResult{}, p.wrap("list offsets", err)
	case !complete && (spec == MaxTimestamp || offset < 0 || offset >= bound):
		return OffsetResult{}, p.wrap("list offsets", ErrOffsetNotAvailable)
	case offset < 0 || offset >= bound:
		return OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, nil
	}
	return OffsetResult{Offset: offset, TimestampMs: ts, LeaderEpoch: p.epochAt(offset)}, nil
}

// DeleteRecords moves the log start forward to before, or to the high watermark if that is -1, and
// returns the new start. An offset below the start changes nothing. When it returns, the new start
// is on stable storage; it blocks for that.
//
// It returns ErrOffsetOutOfRange for an offset above the high watermark, ErrPolicyViolation on a
// topic that is compacted only, ErrNotLeader.
func (p *Partition) DeleteRecords(before int64) (int64, error) {
	if _, err := p.checkEpoch(-1); err != nil {
		return -1, p.wrap("delete records", err)
	}
	hw := p.hw.Load()
	if before == -1 {
		before = hw
	}
	switch {
	case p.rules.Load().compactOnly:
		return -1, p.wrap("delete records", fmt.Errorf("%w: the topic is only compacted", ErrPolicyViolation))
	case before < 0 || before > hw:
		return -1, p.wrap("delete records", ErrOffsetOutOfRange)
	}
	if err := p.log.DeleteRecords(before); err != nil {
		return -1, p.wrap("delete records", err)
	}
	p.mu.Lock()
	wake := p.wake
	p.mu.Unlock()
	if wake != nil {
		wake() // followers move their log start with the leader's
	}
	return p.log.StartOffset(), nil
}

// epochAt returns the leader epoch of the record at offset, -1 if unknown.
func (p *Partition) epochAt(offset int64) int32 { return p.log.Epochs().At(offset) }
