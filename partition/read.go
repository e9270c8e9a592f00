package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/record"
)

// defaultReadBytes is the maximum size of a read without a limit (Kafka: max.partition.fetch.bytes
// of the consumer).
const defaultReadBytes = 1 << 20

// A ReadRequest reads the records that are in the partition now.
type ReadRequest struct {
	Offset             int64 // first record to read
	MaxBytes           int   // the first batch may exceed it; 0 means 1 MiB
	Isolation          Isolation
	CurrentLeaderEpoch int32  // the reader's leader epoch of the partition; -1 is not checked
	Buf                []byte // appended to; nil means a new buffer

	// Partial cuts the result off exactly at the limit, possibly inside a batch, which the reader
	// drops. The first batch is complete. Clients of Kafka receive such results, since Kafka
	// returns ranges of files.
	Partial bool
}

// A ReadResult is the result of a read.
type ReadResult struct {
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	LeaderEpoch      int32
	Aborted          []AbortedTxn // nil under ReadUncommitted or if there is none
	// Bytes is Buf followed by whole, verified batches; with ReadRequest.Partial the last batch may
	// be cut off. It belongs to the caller.
	Bytes []byte
}

// Bound returns the end of the records that an isolation level shows. The next read from there may
// find new records.
func (r *ReadResult) Bound(i Isolation) int64 {
	if i == ReadUncommitted {
		return r.HighWatermark
	}
	return r.LastStableOffset
}

// Read returns whole batches, starting with the batch that contains req.Offset. They are below the
// high watermark or, under ReadCommitted, below the last stable offset. The first batch may begin
// below the requested offset. At or above that bound, but not above the log end, it returns no
// bytes. It returns the batches before damage; a read that begins with the damage returns
// ErrCorrupt. Read may read from the disk, but does not wait for records.
//
// Errors: ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrOffsetOutOfRange,
// ErrCorrupt, ErrClosed.
func (p *Partition) Read(req ReadRequest) (ReadResult, error) {
	epoch, err := p.checkEpoch(req.CurrentLeaderEpoch)
	if err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	return p.readAs(&req, epoch, func() error {
		if p.leaderEpoch.Load() != epoch { // truncated during the read
			return p.notLeading()
		}
		return nil
	})
}

// Glance is Read without records: it returns the watermarks. epoch is the reader's leader epoch of
// the partition; -1 is not checked. Errors: ErrNotLeader, ErrFencedLeaderEpoch,
// ErrUnknownLeaderEpoch, ErrClosed.
func (p *Partition) Glance(epoch int32) (ReadResult, error) {
	epoch, err := p.checkEpoch(epoch)
	if err != nil {
		return ReadResult{}, p.wrap("read", err)
	}
	hw, lso, start := p.bounds()
	return ReadResult{HighWatermark: hw, LastStableOffset: lso, LogStartOffset: start, LeaderEpoch: epoch}, nil
}

// readAs reads in a leader epoch. After a failed read, cause returns an error if the role of this
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
		p.met(err)
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

// fill adds as much of the next batch as the limit permits. An error in that batch is returned to a
// read that begins with it.
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

// checkEpoch returns the leader epoch if this replica leads and epoch, the reader's (-1: any), is
// the current one.
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

// CompareEpochs compares a client's leader epoch with the current one, epoch. It returns nil if
// they are equal or the client's is -1. It returns ErrFencedLeaderEpoch if the client's is older,
// and ErrUnknownLeaderEpoch if it is newer. Kafka: Partition.checkCurrentLeaderEpoch (KIP-320).
func CompareEpochs(believed, epoch int32) error {
	switch {
	case believed >= 0 && believed < epoch:
		return ErrFencedLeaderEpoch
	case believed > epoch:
		return ErrUnknownLeaderEpoch
	}
	return nil
}

// notLeading returns the reason why this replica rejects appends and reads.
func (p *Partition) notLeading() error {
	if p.closing.Load() && !p.resigned.Load() {
		return ErrClosed
	}
	return ErrNotLeader
}

// ListOffset finds an offset by kind or by time. Records beyond the bound of the isolation level
// are ignored: the result is offset -1 then, as for a time after the last record. It may read from
// the disk. It returns ErrOffsetNotAvailable for results that depend on the high watermark while a
// new leader has not received that of its predecessor.
func (p *Partition) ListOffset(spec OffsetSpec, isolation Isolation) (OffsetResult, error) {
	epoch, err := p.checkEpoch(-1)
	if err != nil {
		return OffsetResult{}, p.wrap("list offsets", err)
	}
	return p.listOffset(spec, isolation, epoch, p.complete, func() error {
		if p.leaderEpoch.Load() != epoch { // it may have ended before it was complete
			return p.notLeading()
		}
		return nil
	})
}

// listOffset is ListOffset of a replica in an epoch. isComplete reports whether the replica knows
// the high watermark. changed returns why bounds that were read before do not count.
func (p *Partition) listOffset(spec OffsetSpec, isolation Isolation, epoch int32, isComplete func() bool, changed func() error) (OffsetResult, error) {
	complete := isComplete() // first: bounds that are read later may only be further
	hw, lso, start := p.bounds()
	if err := changed(); err != nil {
		return OffsetResult{}, p.wrap("list offsets", err)
	}
	bound := lso
	if isolation == ReadUncommitted {
		bound = hw
	}
	switch {
	case spec == Latest && !complete:
		return OffsetResult{}, p.wrap("list offsets", ErrOffsetNotAvailable)
	case spec == Latest:
		return OffsetResult{Offset: bound, TimestampMs: -1, LeaderEpoch: epoch}, nil
	case spec == Earliest:
		return OffsetResult{Offset: start, TimestampMs: -1, LeaderEpoch: p.epochAt(start)}, nil
	}
	offset, ts, err := int64(-1), int64(-1), error(nil)
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
		p.met(err)
		return OffsetResult{}, p.wrap("list offsets", err)
	case !complete && (spec == MaxTimestamp || offset < 0 || offset >= bound):
		return OffsetResult{}, p.wrap("list offsets", ErrOffsetNotAvailable)
	case offset < 0 || offset >= bound:
		return OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, nil
	}
	return OffsetResult{Offset: offset, TimestampMs: ts, LeaderEpoch: p.epochAt(offset)}, nil
}

// DeleteRecords moves the log start offset forward to before, or to the high watermark if before is
// -1, and returns the new start. An offset below the start changes nothing. When it returns, the
// new start is on stable storage; it blocks for that.
//
// Errors: ErrOffsetOutOfRange for an offset above the high watermark, ErrPolicyViolation on a topic
// that is only compacted, and ErrNotLeader.
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

// Impediment returns the reason for which a leader does not acknowledge or show records:
// ErrNotEnoughReplicas, or ErrOffsetNotAvailable; nil if it does both. It does not block.
func (p *Partition) Impediment() error {
	if err := p.mayAwaitAll(); err != nil {
		return p.wrap("status", err)
	}
	if !p.complete() {
		return p.wrap("status", ErrOffsetNotAvailable)
	}
	return nil
}
