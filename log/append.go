package log

import (
	"fmt"

	"github.com/stratalog/strata/record"
)

// An Owner takes part in the appends of a log: a partition with its producer state. Admit, Written
// and Refused are called by the leader of a round of appends, never concurrently for one log; none
// may block for long, or append to the log.
type Owner interface {
	// Admit is asked for each append in turn, before offsets are assigned and before a segment is
	// begun for it. An error ends that append with it; nothing is written.
	Admit(a *Append) error
	// Written tells that these appends are in the file and readable. It comes before their Done.
	Written(as []*Append)
	// Refused tells that admitted appends were not written after all.
	Refused(as []*Append, err error)
	// Durable tells that everything below offset is on stable storage. It may come from any
	// goroutine; offsets may come late, after larger ones.
	Durable(offset int64)
}

// A Snapshotter is an Owner with state to be kept beside the segments.
type Snapshotter interface {
	// Snapshot returns the owner's state as of offset, which is where the next append goes; nil if
	// there is nothing to be stored. It is called when a segment is closed, and by Close, when all
	// aborted transactions below are on stable storage in the transaction index.
	Snapshot(offset int64) []byte
}

// WaitFor says when an append is done.
type WaitFor uint8

const (
	// WaitDurable: as the sync policy promises, under SyncOnAck on stable storage, else when it is
	// written.
	WaitDurable WaitFor = iota
	WaitWritten         // when it is in the file
)

// An Append is one batch on its way into a log. From Submit until Done it belongs to the log; then
// the caller may use it again.
type Append struct {
	// Batch is exactly one whole batch. It is borrowed until Done and never written to: offsets are
	// set in a copy of its header.
	Batch []byte
	// Info is the parsed header of Batch; Submit fills it in if it is zero. The CRC is the caller's
	// affair.
	Info record.Batch
	// LeaderEpoch is stamped on the batch. -1: the epoch of SetLeaderEpoch, 0 without one.
	LeaderEpoch int32
	// KeepOffsets takes offsets and epoch as they are, as a follower does; they must not be below
	// the end of the log (ErrOffsetOutOfRange), nor may the last be above 2^63 - 3.
	KeepOffsets bool
	// Emptied says that Batch may be one whose records were taken out, record.Batch.AppendEmpty;
	// else a batch has a record for each of its offsets.
	Emptied bool
	Wait    WaitFor
	// Done is called exactly once, without locks, by any goroutine, maybe before Submit returns. It
	// must not block.
	Done func(*Append)

	// The outcome.
	BaseOffset, LastOffset int64
	Err                    error // nil: appended

	User any // the caller's own

	next  *Append // in the log's queue
	own   bool    // Batch belongs to the log: its header may be written to
	call  *call   // the blocking call it belongs to
	epoch int32   // to be stamped
}

// Submit appends one batch and never waits for a sync: under SyncOnAck the directory's syncer
// writes and syncs it, together with what else there is. Under the other policies, if no round of
// appends is under way, it leads one on this goroutine: one write, for others as well.
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

// mayLead reports whether the goroutine that hands over a may do the round's work. A sync is only
// for who has to wait for it anyway, to the end; it must be left if so, see leadInline.
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

// refusal says why nothing can be appended now. With token.mu: what passes before Close retires the
// token is written or sent away by it.
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

// prepare checks what can be checked without knowing the log's end.
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
