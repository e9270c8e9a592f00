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

// A TxnVerifier is the transaction coordinator as the leaders of partitions call it, before they
// accept the first write of a transaction (KIP-890). Calls for one transactional id do not overlap.
// The methods return when their result is committed, and end when ctx does.
//
// Errors that reject the write: partition.ErrInvalidProducerEpoch (a newer producer has the id),
// ErrProducerIDMapping, ErrTxnAbortable and ErrInvalidTxnState; and from Add
// ErrConcurrentTransactions, while the previous transaction is being completed. Any other error
// means that the coordinator is not available. Then the write is rejected with
// ErrNotEnoughReplicas, which clients of every version retry.
type TxnVerifier interface {
	// Add adds partitions to the transaction in progress, or begins one with them. A client of
	// version 2 may send the first batch of a transaction when the previous one is decided but not
	// completed. Then Add waits a little for the completion, as a Kafka broker retries.
	Add(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) error
	// Verify returns an error for each partition: nil if it is in the transaction, or one of the
	// errors above.
	Verify(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) ([]error, error)
}

// txnAnswerTimeout bounds a question: then the client is to send its batch again.
const txnAnswerTimeout = 30 * time.Second

// txnQuestions sends the leaders' requests to transaction coordinators. For each transactional id
// one request is in progress; later ones are sent together, for all partitions at once.
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
	asking  bool // a goroutine processes the waiting requests
}

// idle reports whether the queue is of no use any more.
func (q *txnQueue) idle() bool { return len(q.waiting) == 0 && q.held == 0 && !q.asking }

// GatherWrites delays the requests of leaders to the transaction coordinator for a transactional id
// until the returned function is called, exactly once. A server calls it when all batches of a
// produce request have been passed to Produce. So one request to the coordinator covers all of the
// request's partitions.
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

// GuardTransaction checks with the leader of tp whether the transaction w is open, before a
// coordinator writes in it to the partition that has its state. See
// partition.Partition.GuardTransaction. It does not block. done is called once, without locks,
// possibly by GuardTransaction itself. Errors passed to done are those of Produce.
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

// ask accepts a request of a partition.
func (t *txnQuestions) ask(question partition.TxnQuestion) {
	t.change(question.TransactionalID, func(q *txnQueue) { q.waiting = append(q.waiting, question) })
}

// change changes the queue of an id, and starts to send the waiting requests if no goroutine does.
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

// run sends the waiting requests of an id until there are none.
func (t *txnQuestions) run(id string, put func(group []partition.TxnQuestion)) {
	for {
		t.mu.Lock()
		q := t.ids[id]
		waiting := q.waiting
		if len(waiting) == 0 || q.held > 0 { // the end of the hold starts another
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

// put sends a request about the partitions of one producer to the coordinator, and returns the
// results.
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

// translate returns a producer's error for a coordinator's error. Kafka:
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
