package log

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// An Owner takes part in the appends of a log, as a partition with its producer state does. Admit,
// Written and Refused are called by the goroutine that leads a round of appends, never concurrently
// for one log. No method may block for long, or append to the log.
type Owner interface {
	// Admit validates each append in turn, before offsets are assigned and before a new segment is
	// created for it. An error ends that append; nothing is written.
	Admit(a *Append) error
	// Written is called when these appends are in the file and readable, before their Done.
	Written(as []*Append)
	// Refused is called when admitted appends were not written because of err.
	Refused(as []*Append, err error)
	// Durable is called when everything below offset is on stable storage. Any goroutine may call
	// it, and offsets may arrive late, after larger ones.
	Durable(offset int64)
}

// A Snapshotter is an Owner whose state is stored beside the segments.
type Snapshotter interface {
	// Snapshot returns the owner's state as of offset, the end of the log, or nil if there is
	// nothing to store. It is called when a segment is closed, and by Close, after all aborted
	// transactions below offset are on stable storage in the transaction index.
	Snapshot(offset int64) []byte
}

// A WaitFor is the condition under which an append is done.
type WaitFor uint8

const (
	// WaitDurable waits for the promise of the sync policy: under SyncOnAck for stable storage,
	// otherwise for the write.
	WaitDurable WaitFor = iota
	WaitWritten         // waits until the batch is in the file
)

// An Append is one batch to append to a log. From Submit until Done it belongs to the log; then the
// caller may reuse it.
type Append struct {
	// Batch is exactly one whole batch. It is borrowed until Done and never written to: offsets are
	// set in a copy of its header.
	Batch []byte
	// Info is the parsed header of Batch; Submit sets it if it is zero. The caller is responsible
	// for the CRC.
	Info record.Batch
	// LeaderEpoch is the epoch to set in the batch; -1 means the epoch of SetLeaderEpoch, or 0
	// without one.
	LeaderEpoch int32
	// KeepOffsets keeps the offsets and the leader epoch of Batch, for a follower. The offsets must
	// not be below the end of the log (ErrOffsetOutOfRange), and the last one must not be above
	// 2^63 - 3.
	KeepOffsets bool
	// Emptied permits a Batch without records, as record.Batch.AppendEmpty makes; otherwise a batch
	// has a record for each of its offsets.
	Emptied bool
	Wait    WaitFor
	// Done is called exactly once, without locks, on any goroutine, possibly before Submit returns.
	// It must not block.
	Done func(*Append)

	// The result.
	BaseOffset, LastOffset int64
	Err                    error // nil: appended

	User any // for the caller's use; the log ignores it

	next  *Append // in the log's queue
	own   bool    // Batch belongs to the log: its header may be written to
	call  *call   // the blocking call it belongs to
	epoch int32   // to be stamped
}

// Submit appends one batch without waiting for a sync. Under SyncOnAck the directory's syncer
// writes and syncs the batch, together with other waiting batches. Under the other policies, Submit
// leads a round of appends on this goroutine if none is in progress: one write, which includes
// waiting appends of other goroutines.
func (l *Log) Submit(a *Append) {
	err := l.prepare(a)
	if err == nil {
		t := &l.token
		t.mu.Lock()
		if err = l.refusal(); err == nil {
			lead := !t.held
			t.held = true
			if lead && l.mayLead(a) {
				t.mu.Unlock()
				t.writer.leadInline(a)
				return
			}
			t.appends.push(a)
			t.mu.Unlock()
			if lead {
				t.writer.leadOnWorkerNext()
			}
			return
		}
		t.mu.Unlock()
	}
	a.Err = err
	a.complete()
}

// mayLead reports whether the goroutine that submits a may run the round. Only a goroutine that
// waits for a sync anyway, until its end, may run the sync; otherwise see leadInline.
func (l *Log) mayLead(a *Append) bool {
	return l.cfg.Load().Sync != SyncOnAck || a.call != nil && a.call.patient && l.dir.syncer.enter(l)
}

// complete calls Done, or lets a blocking call go.
func (a *Append) complete() {
	if a.call != nil {
		a.call.complete()
		return
	}
	a.Done(a)
}

// refusal returns the reason why nothing can be appended now. Called with token.mu: an append that
// passes before Close retires the token is written or rejected by it.
func (l *Log) refusal() error {
	if err := l.durability.failed(); err != nil {
		return err
	}
	switch {
	case l.closing.Load():
		return ErrClosed
	case l.readOnly:
		return ErrReadOnly
	}
	return nil
}

// prepare checks the parts of a that do not depend on the log's end.
func (l *Log) prepare(a *Append) (err error) {
	a.Err, a.BaseOffset, a.LastOffset = nil, -1, -1
	if a.Info.RecordCount == 0 && a.Info.Length == 0 {
		if a.Info, err = record.ParseUnverified(a.Batch); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidBatch, err)
		}
	}
	b := &a.Info
	switch {
	case b.Size() != len(a.Batch):
		return fmt.Errorf("%w: %d bytes, the batch has %d", ErrInvalidBatch, len(a.Batch), b.Size())
	case !a.KeepOffsets && !(a.Emptied && b.RecordCount == 0) && (b.RecordCount <= 0 || b.LastOffsetDelta != b.RecordCount-1):
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidBatch, b.RecordCount, b.LastOffsetDelta)
	}
	if a.KeepOffsets && b.LeaderEpoch < 0 {
		if latest, known := l.epochs.Latest(); known {
			return fmt.Errorf("%w: leader epoch %d after %d", ErrInvalidBatch, b.LeaderEpoch, latest)
		}
	}
	cfg := l.cfg.Load()
	if !a.KeepOffsets && len(a.Batch) > cfg.MaxBatchBytes {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrRecordTooLarge, len(a.Batch), cfg.MaxBatchBytes)
	}
	if int64(len(a.Batch)) > cfg.SegmentBytes {
		return fmt.Errorf("%w: %d bytes, a segment has %d", ErrRecordTooLarge, len(a.Batch), cfg.SegmentBytes)
	}
	return nil
}
