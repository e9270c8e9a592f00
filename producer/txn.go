package producer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// A Txn is a transaction of a producer. Begin creates it, Commit or Abort ends it. Its methods are
// safe for concurrent use: a Commit includes calls of Send and CommitOffsets that began earlier;
// later calls are rejected with ErrTxnDone.
type Txn struct {
	t        *transactions
	producer transaction.Producer
	version  int16
	ctx      context.Context // ends when the transaction has failed or is being aborted: waits to add a record end
	cancel   context.CancelFunc
	failure  atomic.Pointer[error] // first failure

	// guarded by t.mu
	committing bool          // Commit waits for sent records
	ending     *ending       // nil: open
	done       bool          // ending has succeeded, or was fatal
	wrote      bool          // the coordinator may have the transaction
	active     int           // active calls that use it
	idle       chan struct{} // closed when active is 0; nil: no goroutine waits
	late       bool          // an earlier attempt to store offsets may still arrive
	toAdd      []*partitionQueue
	adding     bool
}

// ending is an attempt to end a transaction.
type ending struct {
	commit bool
	done   chan struct{} // closed when it has completed
	err    error         // valid when done is closed
	unsure bool          // guarded by t.mu: a caller got ErrOutcomeUnknown
}

// enter admits a call to the transaction; write is true if the coordinator may learn of the
// transaction. The caller must call leave.
func (x *Txn) enter(op string, write bool) error {
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case x.ending != nil || x.committing:
		return fmt.Errorf("%s: %w", op, ErrTxnDone)
	case t.p.closing.Load():
		return ErrClosed
	case x.failure.Load() != nil:
		return x.failed(op)
	}
	x.active++
	x.wrote = x.wrote || write
	return nil
}

func (x *Txn) leave() {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	x.leaveLocked()
}

func (x *Txn) leaveLocked() {
	x.active--
	if x.active == 0 && x.idle != nil {
		close(x.idle)
		x.idle = nil
	}
}

// fail stores the reason why the transaction cannot be committed; the first one counts. Waits to
// add something to it end.
func (x *Txn) fail(err error) {
	if x.failure.CompareAndSwap(nil, &err) {
		x.cancel()
	}
}

// failed returns the reason why the transaction cannot be committed.
func (x *Txn) failed(op string) error {
	return x.t.errorOf(ErrAbortable, op, *x.failure.Load())
}

// failWith is fail for a call that returns the error.
func (x *Txn) failWith(op string, err error) error {
	x.fail(err)
	return x.failed(op)
}

// Send sends rs in the transaction, in the order of rs for each partition. It returns when the
// records are accepted, as SendAsync does, and may wait as long; Commit waits until they are
// written. Key, value and headers are borrowed until it returns.
//
// An ErrAbortable means that the transaction has to be aborted, because a record was not accepted
// or could not be written. It is returned by this call, a later one, or Commit. After other errors
// nothing has changed: ErrTxnDone, ErrClosed.
func (x *Txn) Send(ctx context.Context, rs ...record.Record) error {
	if err := x.enter("send", len(rs) > 0); err != nil {
		return err
	}
	defer x.leave()
	s := runSender{p: x.t.p}
	for len(rs) > 0 && s.refusal == nil {
		rs = rs[s.send(ctx, rs):]
	}
	if s.refusal != nil {
		return x.failWith("send", s.refusal)
	}
	return nil
}

// CommitOffsets adds offsets of a group to the transaction, for each partition the offset of the
// next record to read. The group has them when the transaction is committed. g names the member
// that owns the partitions (consumer.Consumer.Metadata). The group rejects the call if the member
// is no longer in that generation, so that a former owner cannot overwrite the offsets of the new
// one (KIP-447). A later call replaces the offsets of an earlier one. CommitOffsets returns when
// the offsets are stored; o is borrowed until then.
//
// An ErrAbortable means that the transaction has to be aborted, and wraps the group's error. This
// is group.ErrIllegalGeneration, ErrUnknownMember or ErrFencedInstance if the member no longer owns
// the partitions, or ErrTimeout after MaxBlock. If ctx ends first, the transaction has to be
// aborted, too. After other errors nothing has changed: ErrTxnDone, ErrClosed.
func (x *Txn) CommitOffsets(ctx context.Context, g group.Metadata, o record.Offsets) error {
	if len(o) == 0 {
		return nil
	}
	if err := x.enter("commit offsets", true); err != nil {
		return err
	}
	defer x.leave()
	ctx, cancel := x.t.p.patience(ctx)
	defer cancel()
	offsets := make(map[record.TopicPartition]record.Committed, len(o))
	for tp, offset := range o {
		offsets[tp] = record.Committed{Offset: offset, LeaderEpoch: -1}
	}
	req := group.TxnCommitRequest{TransactionalID: x.t.p.cfg.TransactionalID, TxnVersion: x.version, ProducerID: x.producer.ID, ProducerEpoch: x.producer.Epoch, CommitRequest: group.CommitRequest{
		Group: g.Group, MemberID: g.MemberID, InstanceID: g.InstanceID, Generation: g.Generation, Offsets: offsets, TopicIDs: g.TopicIDs}}
	var err error
	if x.version < backendVersion2 { // else storing the offsets adds the group's partition
		err = x.t.repeat(ctx, "add offsets", func() error {
			return x.t.coordinator.AddOffsets(ctx, x.addRequest(nil), g.Group)
		})
	}
	if err == nil {
		attempts := 0
		err = x.t.repeat(ctx, "commit offsets", func() error {
			attempts++
			return x.storeOffsets(ctx, req)
		})
		x.t.mu.Lock()
		x.late = x.late || attempts > 1
		x.t.mu.Unlock()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = x.t.interrupted(context.Cause(ctx))
		}
		return x.failWith("commit offsets", err)
	}
	return nil
}

// storeOffsets makes one attempt. The group owns the request from the call on.
func (x *Txn) storeOffsets(ctx context.Context, req group.TxnCommitRequest) error {
	req.Offsets = maps.Clone(req.Offsets)
	per, err := x.t.coordinator.CommitTxnOffsets(ctx, req)
	if err != nil {
		return err
	}
	for tp, err := range per {
		if err != nil {
			return fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, err)
		}
	}
	return nil
}

func (x *Txn) addRequest(tps []record.TopicPartition) transaction.AddRequest {
	return transaction.AddRequest{ID: x.t.p.cfg.TransactionalID, Producer: x.producer, Partitions: tps, Version: x.version}
}

// bound returns a context that also ends when the transaction has failed or is being aborted.
func (x *Txn) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(x.ctx, cancel)
	return ctx, func() {
		unhook()
		cancel()
	}
}

// join adds pt, which has its first batch in the transaction. It reports whether the batch may be
// sent; if not, pt.named is called when it may. Called with the lock of pt.
func (x *Txn) join(pt *partitionQueue) bool {
	if x.version >= backendVersion2 {
		return true // the write adds the partition
	}
	t := x.t
	t.mu.Lock()
	x.toAdd = append(x.toAdd, pt)
	start := !x.adding && x.ctx.Err() == nil
	if start {
		x.adding = true
		x.active++
	}
	t.mu.Unlock()
	if start && !t.p.spawn(x.addPartitions) {
		x.leave() // it is closing: the batch fails
	}
	return false
}

// addPartitions adds partitions to a transaction before version 2, all waiting ones at a time.
func (x *Txn) addPartitions() {
	for {
		x.t.mu.Lock()
		parts := x.toAdd
		x.toAdd = nil
		if len(parts) == 0 {
			x.adding = false
			x.leaveLocked()
			x.t.mu.Unlock()
			return
		}
		x.t.mu.Unlock()
		tps := make([]record.TopicPartition, len(parts))
		for i, pt := range parts {
			tps[i] = record.TopicPartition{Topic: pt.topic, Partition: pt.index}
		}
		err := x.t.repeat(x.ctx, "add partitions", func() error { return x.t.coordinator.AddPartitions(x.ctx, x.addRequest(tps)) })
		if err != nil {
			x.fail(fmt.Errorf("add %v to the transaction: %w", tps, err))
			continue
		}
		for _, pt := range parts {
			pt.named()
		}
	}
}

// Commit commits the transaction. It sends buffered records, waits until they are written, and
// returns nil when the commit is decided and durable. Readers see it partition by partition, a
// moment later. An empty transaction needs no request.
//
// After an error:
//
//   - ErrAbortable: the transaction is not committed, and never will be. Abort it.
//   - ctx's error alone: the transaction is unchanged. Commit or Abort it.
//   - ErrOutcomeUnknown: ctx ended after the request to the coordinator. The transaction is being
//     committed in the background. Another Commit waits for the outcome, and so does the next
//     Begin. After Close it also means that the coordinator did not respond in time.
//   - ErrFatal: the transaction is aborted. If the error also matches ErrOutcomeUnknown, the
//     producer was fenced and cannot find out.
//   - ErrTxnDone: an earlier call ended it.
func (x *Txn) Commit(ctx context.Context) error {
	t := x.t
	t.mu.Lock()
	switch {
	case x.ending != nil && (!x.ending.commit || x.done && !x.ending.unsure):
		t.mu.Unlock()
		return fmt.Errorf("commit: %w", ErrTxnDone)
	case x.ending != nil:
		e := x.ending
		t.mu.Unlock()
		return x.await(ctx, e)
	case x.committing:
		t.mu.Unlock()
		return fmt.Errorf("commit: %w", ErrTxnDone)
	case x.failure.Load() != nil:
		t.mu.Unlock()
		return x.failed("commit")
	case t.p.closing.Load():
		t.mu.Unlock()
		return ErrClosed
	}
	x.committing = true
	t.mu.Unlock()
	err := x.flush(ctx)
	t.mu.Lock()
	x.committing = false
	switch {
	case x.ending != nil:
		err = fmt.Errorf("commit: %w", ErrTxnDone) // aborted meanwhile
	case x.failure.Load() != nil:
		err = x.failed("commit")
	case err == nil:
		x.startEndLocked(true)
	}
	e := x.ending
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return x.await(ctx, e)
}

// flush waits until all records of the transaction are settled, the transaction cannot be committed
// any more, or ctx ends.
func (x *Txn) flush(ctx context.Context) error {
	ctx, cancel := x.bound(ctx)
	defer cancel()
	if err := x.awaitIdle(ctx); err != nil {
		return err
	}
	return x.t.p.Flush(ctx)
}

// awaitIdle waits until no call uses the transaction any more.
func (x *Txn) awaitIdle(ctx context.Context) error {
	x.t.mu.Lock()
	if x.active == 0 {
		x.t.mu.Unlock()
		return ctx.Err()
	}
	if x.idle == nil {
		x.idle = make(chan struct{})
	}
	idle := x.idle
	x.t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Abort aborts the transaction. Buffered records are dropped, and waiting calls of Send return.
// Abort returns nil when the outcome is decided and durable. It may be called after any error.
//
// Errors:
//
//   - ErrTxnDone: the transaction was ended earlier.
//   - ErrOutcomeUnknown: ctx ended, and the transaction is being aborted in the background; another
//     Abort waits for it, and so does Begin. Or the transaction is being committed.
//   - ErrFatal: the transaction is aborted or will be, but not by this producer, which cannot be
//     used any more.
func (x *Txn) Abort(ctx context.Context) error {
	t := x.t
	t.mu.Lock()
	switch e := x.ending; {
	case e == nil:
		x.startEndLocked(false)
	case x.done && (e.commit || !e.unsure):
		t.mu.Unlock()
		return fmt.Errorf("abort: %w", ErrTxnDone)
	case e.commit:
		t.mu.Unlock()
		return t.errorOf(ErrOutcomeUnknown, "abort", errors.New("it is being committed"))
	}
	e := x.ending
	t.mu.Unlock()
	return x.await(ctx, e)
}

// await returns the outcome of an attempt to end the transaction.
func (x *Txn) await(ctx context.Context, e *ending) error {
	select {
	case <-e.done:
		return e.err
	default:
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	select {
	case <-e.done:
		return e.err
	default:
		e.unsure = true
		return x.t.errorOf(ErrOutcomeUnknown, e.op(), withCause(ctx.Err(), x.t.trouble))
	}
}

func (e *ending) op() string {
	if e.commit {
		return "commit"
	}
	return "abort"
}
