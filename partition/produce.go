package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Produce appends one client batch. req.Done is called once with the result; if the batch is
// rejected, before Produce returns. Produce waits neither for acknowledgements nor for the disk.
// Under log.SyncOnAck the directory's syncer writes and syncs. Otherwise the caller's goroutine
// writes, if no append is in progress on this partition (see log.Log.Submit).
//
// Produce validates in Kafka's order: leadership, base offset, size, CRC and records. For the first
// batch of a transaction, it checks with the coordinator whether the partition is in the
// transaction. When the batch's turn comes, it checks the producer's epoch and sequence. A batch
// that is in the log already succeeds with the original offset. Requests of one producer keep the
// order of the calls, also while they wait for the coordinator.
func (p *Partition) Produce(req *ProduceRequest) {
	req.p = p
	req.result = ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1}
	req.written, req.decided, req.timed, req.refused = false, false, false, false
	if err := p.prepare(req); err != nil {
		p.stats.refused.Add(1)
		req.result.Err = p.wrap("produce", err)
		req.Done(req.result)
		return
	}
	if p.verify != nil && !req.Coordinator && req.append.Info.IsTransactional() && !p.guarded(req) {
		return
	}
	p.submit(req)
}

// prepare checks the batch against the rules and makes it ready for the log.
func (p *Partition) prepare(req *ProduceRequest) error {
	want := int32(-1)
	if req.LeaderEpoch != nil {
		want = *req.LeaderEpoch
	}
	epoch, err := p.checkEpoch(want)
	if err != nil {
		return err
	}
	req.result.LeaderEpoch = epoch
	if req.Acks < record.AcksAll || req.Acks > record.AcksNone {
		return ErrInvalidAcks
	}
	if req.Acks == record.AcksAll {
		if err := p.mayAwaitAll(); err != nil {
			req.result.LogStartOffset = p.log.StartOffset()
			return err
		}
	}
	req.append, req.marker = log.Append{}, nil
	if req.Coordinator {
		if is, err := req.prepareMarker(); is || err != nil {
			return err
		}
	}
	if err := p.rules.Load().check(req); err != nil {
		return err
	}
	if req.append.Info.IsTransactional() && req.TransactionalID == "" && !req.Coordinator {
		return ErrTransactionalID
	}
	return nil
}

// prepareMarker makes a transaction marker ready for the log, and reports whether the batch is one.
func (req *ProduceRequest) prepareMarker() (is bool, err error) {
	if b, err := record.ParseUnverified(req.Batch); err != nil || !b.IsControl() {
		return false, nil // a later check returns the error
	}
	b, size, err := record.Parse(req.Batch)
	if err != nil {
		return false, err
	}
	m, ok, err := readMarker(b)
	if err != nil || !ok || size != len(req.Batch) {
		return false, err
	}
	m.version = req.TxnVersion
	req.marker = &m
	req.append.Batch, req.append.Info = req.Batch, *b
	return true, nil
}

// submit hands the prepared request to the log.
func (p *Partition) submit(req *ProduceRequest) {
	none := req.Acks == record.AcksNone
	switch {
	case none && p.unawaited(req) && p.submitUnawaited(req):
	case none:
		p.submitAppend(req, log.WaitWritten)
	default:
		p.submitAppend(req, log.WaitDurable)
	}
}

func (p *Partition) submitAppend(req *ProduceRequest, wait log.WaitFor) {
	a := &req.append
	a.LeaderEpoch, a.User, a.Done, a.Wait = req.result.LeaderEpoch, req, p.appended, wait
	if req.Timeout > 0 {
		req.expires = time.Since(p.opened) + req.Timeout
	}
	p.log.Submit(a)
}

// onAppended is the log's word on an append: refused, failed, or as safe as the leader alone can
// make it.
func (p *Partition) onAppended(a *log.Append) {
	req := a.User.(*ProduceRequest)
	switch err := a.Err; {
	case err == nil, errors.Is(err, errDuplicate): // Written or Admit has filled in the result
		if p.acknowledged(req) {
			p.finish(req, nil)
		}
	case errors.Is(err, errRetryInRound):
		a.Err = nil
		p.log.Submit(a)
	default:
		p.fail(req, err)
	}
}

// acknowledged reports whether the request's fate is decided; if not, it is left waiting for the
// high watermark. A duplicate waits like the batch that it repeats, which may not be safe yet.
func (p *Partition) acknowledged(req *ProduceRequest) bool {
	needsHW := req.Acks == record.AcksAll || req.Acks == record.AcksLeader && req.result.Duplicate
	passed := p.hw.Load() > req.lastOffset
	// In this order: passed is about our own time as leader.
	if p.leaderEpoch.Load() == req.result.LeaderEpoch && (passed || !needsHW) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case req.decided: // timed out meanwhile
		return false
	case p.leaderEpoch.Load() != req.result.LeaderEpoch: // the batch may have been truncated
		req.result.Err = p.wrap("produce", ErrNotLeaderAfterAppend)
		return true
	case p.hw.Load() > req.lastOffset:
		return true
	}
	req.ack.Value = req
	p.acks.Add(&req.ack, req.lastOffset)
	p.expireLocked(req) // a duplicate is not written, so it has no deadline yet
	return false
}

// fail ends a request that the log refused or lost. If it was written before, the log has broken:
// nothing that waits will become safe.
func (p *Partition) fail(req *ProduceRequest, err error) {
	p.stats.refused.Add(1)
	p.met(err)
	if errors.Is(err, log.ErrStaleEpoch) { // Lead has begun the next epoch in the log only
		req.refused = true
		err = fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if !req.refused && p.leaderEpoch.Load() != req.result.LeaderEpoch && !errors.Is(err, log.ErrClosed) {
		// The disk failed after this broker lost the leadership: it is unknown whether the batch
		// was written.
		err = fmt.Errorf("%w: %w", ErrNotLeaderAfterAppend, err)
	}
	err = p.wrap("produce", err)
	if req.written {
		p.mu.Lock()
		d := p.releaseLocked(err)
		p.mu.Unlock()
		defer d.run()
	} else {
		req.result.LogStartOffset = p.log.StartOffset()
	}
	p.finish(req, err)
}

// finish delivers the result of a request that waits in no queue, unless it has timed out.
func (p *Partition) finish(req *ProduceRequest, err error) {
	if req.timed {
		p.mu.Lock()
		first := p.decideLocked(req)
		p.mu.Unlock()
		if !first {
			return
		}
	}
	if err != nil {
		req.result.Err = err
	}
	req.Done(req.result)
}

// decideLocked makes the request's result final; it returns false if it was final before.
func (p *Partition) decideLocked(req *ProduceRequest) bool {
	if req.decided {
		return false
	}
	req.decided = true
	p.deadlines.Remove(&req.deadline)
	return true
}

// AppendSync is a blocking Produce. It returns when the batch is acknowledged, or with the
// context's error if ctx ends; then the append itself continues. batch is borrowed until AppendSync
// returns.
func (p *Partition) AppendSync(ctx context.Context, batch []byte, acks record.Acks) (ProduceResult, error) {
	if ctx.Done() != nil {
		batch = slices.Clone(batch) // the append may outlive the call
	}
	done := make(chan ProduceResult, 1)
	p.Produce(&ProduceRequest{TopicPartition: p.tp, Batch: batch, Acks: acks, Done: func(r ProduceResult) { done <- r }})
	select {
	case r := <-done:
		return r, r.Err
	case <-ctx.Done():
		return ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1}, p.wrap("produce", ctx.Err())
	}
}
