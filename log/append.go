package log

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// An Owner takes part in the appends of a log: a partition with its producer state. Admit, Written and Refused are called by the leader of a round
// of appends, never concurrently for one log; none may block for long, or append to the log.
type Owner interface {
	// Admit is asked for each append in turn, before offsets are assigned. An error ends that append with it; nothing is written.
	Admit(a *Append) error
	// Written tells that these appends are in the file and readable. It comes before their Done.
	Written(as []*Append)
	// Refused tells that admitted appends were not written after all.
	Refused(as []*Append, err error)
	// Durable tells that everything below offset is on stable storage. It may come from any goroutine; offsets may come late, after larger ones.
	Durable(offset int64)
}

// A Snapshotter is an Owner with state to be kept beside the segments.
type Snapshotter interface {
	// Snapshot returns the owner's state as of offset, which is where the next append goes. It is called when a segment is closed, and by Close.
	Snapshot(offset int64) []byte
}

// WaitFor says when an append is done.
type WaitFor uint8

const (
	WaitDurable WaitFor = iota // as the sync policy promises: under SyncOnAck on stable storage, else when it is written
	WaitWritten                // when it is in the file
)

// An Append is one batch on its way into a log. From Submit until Done it belongs to the log; then the caller may use it again.
type Append struct {
	// Batch is exactly one whole batch. It is borrowed until Done and never written to: offsets are set in a copy of its header.
	Batch []byte
	// Info is the parsed header of Batch; Submit fills it in if it is zero. The CRC is the caller's affair.
	Info record.Batch
	// LeaderEpoch is stamped on the batch. -1: the epoch of SetLeaderEpoch, 0 without one.
	LeaderEpoch int32
	// KeepOffsets takes offsets and epoch as they are, as a follower does; they must not be below the end of the log.
	KeepOffsets bool
	Wait        WaitFor
	// Done is called exactly once, without locks, by any goroutine, maybe before Submit returns. It must not block.
	Done func(*Append)

	// The outcome.
	BaseOffset, LastOffset int64
	Err                    error // nil: appended

	User any // the caller's own

	inline bool  // the caller waits, and may sync by itself
	epoch  int32 // to be stamped
}

// Bounds of one round.
const (
	roundAppends = 1024
	roundBytes   = 4 << 20
	copyBytes    = 8 << 10 // batches up to this size are copied into the round's buffer, larger ones written from where they are
	patchedBytes = 16      // base offset, length, leader epoch: what is set in a copy
	maxRounds    = 16      // in a row by one goroutine that only wanted to append
)

// round is the scratch of whoever leads.
type round struct {
	all   []*Append // taken
	in    []*Append // admitted
	bufs  [][]byte
	infos []segment.BatchInfo
	buf   []byte
}

// Submit appends one batch. It does not wait for the disk to sync; it may write on this goroutine, for others as well.
func (l *Log) Submit(a *Append) {
	if err := l.prepare(a); err != nil {
		a.Err = err
		a.Done(a)
		return
	}
	l.mu.Lock()
	if err := l.refusalLocked(); err != nil {
		l.mu.Unlock()
		a.Err = err
		a.Done(a)
		return
	}
	l.queue = append(l.queue, a)
	l.mu.Unlock()
	if l.write.try() {
		l.leadRounds()
	}
}

// refusalLocked says why nothing can be appended now.
func (l *Log) refusalLocked() error {
	switch {
	case l.broken != nil:
		return l.broken
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
	case !a.KeepOffsets && (b.RecordCount <= 0 || b.LastOffsetDelta != b.RecordCount-1):
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidBatch, b.RecordCount, b.LastOffsetDelta)
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

// leadRounds writes what is queued, with the turn, and gives the turn back.
func (l *Log) leadRounds() {
	for n := 0; ; n++ {
		if n == maxRounds { // let the caller go: somebody else's appends keep coming
			l.wg.Go(l.leadRounds)
			return
		}
		l.lead()
		l.write.give()
		l.mu.Lock()
		more := len(l.queue) > 0
		l.mu.Unlock()
		if !more || !l.write.try() {
			return
		}
	}
}

// giveTurn ends an exclusive piece of work: what was queued meanwhile is written.
func (l *Log) giveTurn() {
	l.write.give()
	l.mu.Lock()
	more := len(l.queue) > 0
	l.mu.Unlock()
	if more && l.write.try() {
		l.leadRounds()
	}
}

// lead writes one round.
func (l *Log) lead() {
	r := &l.round
	l.takeQueued(r)
	if len(r.all) == 0 {
		return
	}
	rest := r.all
	for len(rest) > 0 {
		rest = l.writeSome(r, rest)
	}
	clear(r.all)
	r.all = r.all[:0]
}

// takeQueued moves the front of the queue into the round.
func (l *Log) takeQueued(r *round) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.queue) && n < roundAppends && (n == 0 || bytes+len(l.queue[n].Batch) <= roundBytes) {
		bytes += len(l.queue[n].Batch)
		n++
	}
	r.all = append(r.all, l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
}

// writeSome admits and writes appends up to where a new segment is needed, and returns the others.
func (l *Log) writeSome(r *round, as []*Append) (rest []*Append) {
	next := l.end.Load()
	r.in, r.infos = r.in[:0], r.infos[:0]
	active := l.active()
	size := active.Size()
	var refused []*Append
	for i, a := range as {
		first, err := l.admit(a, next)
		if err != nil {
			a.Err = err
			refused = append(refused, a)
			continue
		}
		last := first + int64(a.Info.LastOffsetDelta)
		roll, err := l.mustRoll(active, size, a, last)
		if err == nil && roll {
			if len(r.in) > 0 { // write what there is; this one begins the next part
				l.withdraw(a)
				l.finishSome(r, refused)
				return as[i:]
			}
			err = l.roll(max(first, next))
			active, size = l.active(), 0
		}
		if err == nil {
			err = l.assignEpoch(a, first)
		}
		if err != nil {
			l.withdraw(a)
			a.Err = err
			refused = append(refused, a)
			continue
		}
		a.BaseOffset, a.LastOffset = first, last
		next = last + 1
		size += int64(len(a.Batch))
		r.in = append(r.in, a)
		r.infos = append(r.infos, segment.BatchInfo{Size: len(a.Batch), BaseOffset: first, LastOffset: last, MaxTimestamp: a.Info.MaxTimestamp})
	}
	l.finishSome(r, refused)
	return nil
}

// admit returns the first offset of a, if it may be appended.
func (l *Log) admit(a *Append, next int64) (first int64, err error) {
	first = next
	if a.KeepOffsets {
		if first = a.Info.BaseOffset; first < next {
			return 0, fmt.Errorf("%w: append at %d, the log ends at %d", ErrOffsetOutOfRange, first, next)
		}
	}
	if owner := l.cfg.Load().Owner; owner != nil {
		err = owner.Admit(a)
	}
	return first, err
}

// withdraw takes back an admission.
func (l *Log) withdraw(a *Append) {
	if owner := l.cfg.Load().Owner; owner != nil {
		owner.Refused([]*Append{a}, nil)
	}
}

// finishSome writes the admitted appends and ends the refused ones.
func (l *Log) finishSome(r *round, refused []*Append) {
	if len(r.in) > 0 {
		l.writeAdmitted(r)
	}
	for _, a := range refused {
		a.Done(a)
	}
}

// writeAdmitted is one write for all of r.in.
func (l *Log) writeAdmitted(r *round) {
	cfg := l.cfg.Load()
	err := l.markOpen()
	active := l.active()
	if err == nil && cfg.Sync == SyncOnAck {
		err = active.Preallocate(l.preallocation(cfg))
	}
	if err == nil {
		r.gather()
		err = active.Append(r.bufs, r.infos)
		clear(r.bufs)
	}
	if err != nil {
		l.failRound(r, active, err)
		return
	}
	end := r.in[len(r.in)-1].LastOffset + 1
	l.end.Store(end)
	l.count(r)
	if cfg.Owner != nil {
		cfg.Owner.Written(r.in)
	}
	l.written(r, cfg, end)
}

// gather makes r.bufs hold the bytes of r.in, with offsets and epochs set in copies.
func (r *round) gather() {
	copied := 0
	for _, a := range r.in {
		if len(a.Batch) <= copyBytes {
			copied += len(a.Batch)
		} else {
			copied += patchedBytes
		}
	}
	if cap(r.buf) < copied {
		r.buf = make([]byte, 0, 2*copied)
	}
	buf, from := r.buf[:0], 0
	r.bufs = r.bufs[:0]
	for _, a := range r.in {
		at := len(buf)
		if len(a.Batch) <= copyBytes {
			buf = append(buf, a.Batch...)
		} else {
			buf = append(buf, a.Batch[:patchedBytes]...)
		}
		if !a.KeepOffsets {
			record.SetBaseOffset(buf[at:], a.BaseOffset)
			record.SetLeaderEpoch(buf[at:], a.epoch)
		}
		if len(a.Batch) > copyBytes {
			r.bufs = append(r.bufs, buf[from:], a.Batch[patchedBytes:])
			from = len(buf)
		}
	}
	if from < len(buf) {
		r.bufs = append(r.bufs, buf[from:])
	}
	r.buf = buf
	if cap(r.buf) > 2*roundBytes { // one huge round must not pin memory for ever
		r.buf = nil
	}
}

func (l *Log) count(r *round) {
	var records, bytes int64
	for _, a := range r.in {
		records += int64(a.Info.RecordCount)
		bytes += int64(len(a.Batch))
	}
	l.stats.rounds.Add(1)
	l.stats.appends.Add(int64(len(r.in)))
	l.stats.records.Add(records)
	l.stats.bytes.Add(bytes)
}

// failRound ends appends whose write failed. The segment was cut back, or is broken.
func (l *Log) failRound(r *round, active *segment.Segment, err error) {
	err = fmt.Errorf("append to %s: %w", l.path, err)
	if active.Err() != nil {
		l.breakWith(err)
	}
	if owner := l.cfg.Load().Owner; owner != nil {
		owner.Refused(r.in, err)
	}
	for _, a := range r.in {
		a.Err, a.BaseOffset, a.LastOffset = err, -1, -1
		a.Done(a)
	}
}

// written ends the appends that wait for no more, wakes readers, and has the others synced.
func (l *Log) written(r *round, cfg *Config, end int64) {
	l.mu.Lock()
	inline := false
	if cfg.Sync == SyncOnAck {
		for _, a := range r.in {
			if a.Wait == WaitDurable {
				l.unsynced.push(a)
			}
		}
		inline = len(r.in) == 1 && r.in[0].inline && l.syncs == (syncState{}) && l.dir.syncer.idle()
		if inline {
			l.syncs.running = true
		}
	}
	var woken []*endWaiter
	for e := l.waiting.Pop(end); e != nil; e = l.waiting.Pop(end) {
		woken = append(woken, e)
	}
	l.armLocked(cfg)
	l.mu.Unlock()
	for _, e := range woken {
		close(e.Value)
	}
	for _, a := range r.in {
		if cfg.Sync != SyncOnAck || a.Wait == WaitWritten {
			a.Done(a)
		}
	}
	if inline {
		r.in[0].syncHere()
		return
	}
	if cfg.Sync == SyncOnAck {
		l.dir.syncer.request(l)
	}
}

// Append appends the records as one batch and returns the offset of the first. It waits until they are as durable as the sync policy promises.
// Records without a timestamp get the present time; Topic, Partition and Offset are ignored. Keys, values and headers are borrowed.
//
// Cancelling ctx ends the wait, not the append: the records may be there later. It returns ErrRecordTooLarge, ErrClosed, the sticky error of a
// failed sync, or the error of a failed write, after which nothing of them is there.
func (l *Log) Append(ctx context.Context, rs ...record.Record) (first int64, err error) {
	if len(rs) == 0 {
		return 0, fmt.Errorf("%w: no records", ErrInvalidBatch)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := l.getCall()
	c.builder.Reset(0)
	for i := range rs {
		c.builder.Append(&rs[i])
	}
	c.buf, err = c.builder.AppendBatch(c.buf[:0], record.None)
	if err != nil {
		l.putCall(c)
		return 0, fmt.Errorf("append to %s: %w", l.path, err)
	}
	return l.await(ctx, c, c.buf)
}

// AppendBatch appends a ready batch, which is borrowed; its base offset and leader epoch are set in a copy. Otherwise it is Append.
// The batch's CRC is verified: an error matching record.ErrCorrupt.
func (l *Log) AppendBatch(ctx context.Context, batch []byte) (first int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b, n, err := record.Parse(batch)
	if err != nil || n != len(batch) {
		return 0, errors.Join(ErrInvalidBatch, err)
	}
	c := l.getCall()
	c.a.Info = *b
	return l.await(ctx, c, batch)
}

// A call is what one blocking append needs.
type call struct {
	a       Append
	builder record.Builder
	buf     []byte
	done    chan struct{} // capacity 1
	syncing bool          // the caller is to sync by itself
}

func (l *Log) getCall() *call {
	if c, ok := l.calls.Get().(*call); ok {
		return c
	}
	c := &call{done: make(chan struct{}, 1)}
	c.a.User = c
	c.a.Done = func(a *Append) { a.User.(*call).done <- struct{}{} }
	return c
}

const maxPooledBytes = 1 << 20

func (l *Log) putCall(c *call) {
	if cap(c.buf) > maxPooledBytes || c.builder.Size() > maxPooledBytes { // one huge batch must not pin memory for ever
		return
	}
	c.a.Info, c.a.Batch, c.syncing = record.Batch{}, nil, false
	l.calls.Put(c)
}

// syncHere tells the caller of a lone append to sync by itself.
func (a *Append) syncHere() { a.User.(*call).syncing = true }

// await submits c's append and waits for it.
func (l *Log) await(ctx context.Context, c *call, batch []byte) (int64, error) {
	a := &c.a
	a.Batch, a.LeaderEpoch, a.KeepOffsets, a.Wait, a.inline = batch, -1, false, WaitDurable, true
	l.Submit(a)
	if c.syncing {
		l.sync()
	}
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("append to %s: the wait ended, the append goes on: %w", l.path, ctx.Err()) // c is not pooled again
		}
	}
	first, err := a.BaseOffset, a.Err
	l.putCall(c)
	return first, err
}
