package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A TxnVerifier is the coordinator of transactions, as the leaders of partitions ask it before they
// take the first write of a transaction (KIP-890). Both methods are called for one transactional id
// after the other, return when what they say is committed, and end with ctx.
//
// Errors that end the write: partition.ErrInvalidProducerEpoch (a newer producer has the id),
// ErrProducerIDMapping, ErrTxnAbortable, ErrInvalidTxnState, and ErrConcurrentTransactions while
// the transaction before is being ended. After any other the coordinator cannot be asked just now:
// the write is refused with ErrNotEnoughReplicas, which clients of every version send again.
type TxnVerifier interface {
	// Add puts partitions into the transaction under way, or begins it with them. A client of
	// version 2 may send the first batch of a transaction when the one before is decided: while
	// that is being ended Add waits a little, as a Kafka broker asks again.
	Add(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) error
	// Verify tells of each partition whether it is in the transaction: nil or an error as above.
	Verify(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) ([]error, error)
}

// txnAnswerTimeout bounds a question: then the client is to send its batch again.
const txnAnswerTimeout = 30 * time.Second

// txnQuestions are what leaders want to know of coordinators. Of each transactional id one question
// is under way; what comes meanwhile is asked together, for all partitions at once.
type txnQuestions struct {
	c      *Cluster
	ctx    context.Context // done when the cluster closes
	cancel context.CancelFunc

	mu  sync.Mutex // guards the fields below; a leaf
	ids map[string]*txnQueue
}

type txnQueue struct {
	waiting []partition.TxnQuestion
	held    int  // GatherWrites that have not ended
	asking  bool // a goroutine takes what waits
}

// idle reports whether the queue is of no use any more.
func (q *txnQueue) idle() bool { return len(q.waiting) == 0 && q.held == 0 && !q.asking }

// GatherWrites has leaders wait with questions about a transactional id until the returned function
// is called, once: it is called when all batches of a request are handed to Produce, so that the
// coordinator is asked about all their partitions at once.
func (c *Cluster) GatherWrites(transactionalID string) (ask func()) {
	if c.cfg.Transactions == nil {
		return func() {}
	}
	c.txns.change(transactionalID, func(q *txnQueue) { q.held++ })
	return func() { c.txns.change(transactionalID, func(q *txnQueue) { q.held-- }) }
}

// GatherWrites is Cluster.GatherWrites.
func (v View) GatherWrites(transactionalID string) (ask func()) {
	return v.c.GatherWrites(transactionalID)
}

// GuardTransaction has the leader of tp find out whether a transaction that is to be written in is
// open, see partition.Partition.GuardTransaction: it is for a coordinator that keeps its state
// there. It does not block. done is called once, without locks, also by GuardTransaction itself.
// Errors are those of Produce.
func (c *Cluster) GuardTransaction(tp record.TopicPartition, w partition.TxnWrite, done func(error)) {
	r, err := c.leaderReplica(tp, anyBroker)
	if err != nil {
		done(err)
		return
	}
	r.with(func(p *partition.Partition, err error) {
		if err != nil {
			done(err)
			return
		}
		p.GuardTransaction(w, func(_ *partition.TxnGuard, err error) { done(err) })
	})
}

// ask takes a question of a partition.
func (t *txnQuestions) ask(question partition.TxnQuestion) {
	t.change(question.TransactionalID, func(q *txnQueue) { q.waiting = append(q.waiting, question) })
}

// change changes the queue of an id, and starts to ask what waits if nobody does.
func (t *txnQuestions) change(id string, change func(*txnQueue)) {
	t.mu.Lock()
	q := t.ids[id]
	if q == nil {
		q = &txnQueue{}
		t.ids[id] = q
	}
	change(q)
	start := len(q.waiting) > 0 && q.held == 0 && !q.asking
	q.asking = q.asking || start
	if q.idle() {
		delete(t.ids, id)
	}
	t.mu.Unlock()
	if start && !t.c.run(func() { t.run(id, t.put) }) {
		t.run(id, func(group []partition.TxnQuestion) { answerAll(group, ErrClosed) })
	}
}

// run puts what waits in the queue of an id until nothing does.
func (t *txnQuestions) run(id string, put func(group []partition.TxnQuestion)) {
	for {
		t.mu.Lock()
		q := t.ids[id]
		waiting := q.waiting
		if len(waiting) == 0 || q.held > 0 { // whoever holds it starts another
			q.asking = false
			if q.idle() {
				delete(t.ids, id)
			}
			t.mu.Unlock()
			return
		}
		q.waiting = nil
		t.mu.Unlock()
		for len(waiting) > 0 {
			n := slices.IndexFunc(waiting, func(o partition.TxnQuestion) bool { return o.TxnWrite != waiting[0].TxnWrite })
			if n < 0 {
				n = len(waiting)
			}
			put(waiting[:n])
			waiting = waiting[n:]
		}
	}
}

func answerAll(group []partition.TxnQuestion, err error) {
	for _, q := range group {
		q.Answer(err)
	}
}

// put asks the coordinator about the partitions of one producer, and answers.
func (t *txnQuestions) put(group []partition.TxnQuestion) {
	ctx, cancel := context.WithTimeout(t.ctx, txnAnswerTimeout)
	defer cancel()
	w := group[0].TxnWrite
	partitions := make([]record.TopicPartition, len(group))
	for i, q := range group {
		partitions[i] = q.Partition
	}
	var errs []error
	var err error
	if w.Adds() {
		err = t.c.cfg.Transactions.Add(ctx, w, partitions)
	} else if errs, err = t.c.cfg.Transactions.Verify(ctx, w, partitions); err == nil && len(errs) != len(group) {
		err = fmt.Errorf("%d answers for %d partitions", len(errs), len(group))
	}
	for i, q := range group {
		if err == nil && errs != nil {
			q.Answer(t.translate(w, errs[i]))
		} else {
			q.Answer(t.translate(w, err))
		}
	}
}

// translate returns what a producer is told instead of a coordinator's error. Kafka:
// ReplicaManager.handleProduceAppend.
func (t *txnQuestions) translate(w partition.TxnWrite, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, partition.ErrConcurrentTransactions) && w.Adds(),
		errors.Is(err, partition.ErrInvalidProducerEpoch), errors.Is(err, partition.ErrProducerIDMapping),
		errors.Is(err, partition.ErrTxnAbortable), errors.Is(err, partition.ErrInvalidTxnState):
		return err
	case t.ctx.Err() != nil:
		return ErrClosed
	}
	// Not as an error that the coordinator's own clients look for.
	return fmt.Errorf("%w: the coordinator of transactional id %q: %v", partition.ErrNotEnoughReplicas, w.TransactionalID, err)
}
