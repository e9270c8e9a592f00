package producer

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/transaction"
)

// Errors of transactions, for errors.Is. Those of ErrFatal, ErrAbortable and ErrOutcomeUnknown are
// *TxnErrors, which wrap the cause.
var (
	// ErrAbortable says that the transaction cannot be committed any more. Abort it, and the
	// producer is as good as new. Nothing of the transaction is ever seen by readers of committed
	// records.
	ErrAbortable = errors.New("producer: the transaction has to be aborted")

	// ErrFatal says that the producer can do no transaction any more, this one included: close it.
	// Its cause is ErrFenced if another producer has the transactional id.
	ErrFatal = errors.New("producer: no more transactions are possible")

	// ErrOutcomeUnknown says that a Commit or Abort was asked for, and it is not known yet whether
	// it has happened. It is asked for again in the background, until it is known: the same method,
	// called again, waits for that, and so does the next Begin.
	ErrOutcomeUnknown = errors.New("producer: the outcome of the transaction is not known yet")

	// ErrNotTransactional says that the producer has no Config.TransactionalID.
	ErrNotTransactional = errors.New("producer: has no TransactionalID")
	// ErrNoTransaction says that a producer with a TransactionalID was asked to send outside of a
	// transaction: use Transact, or Begin and Txn.Send.
	ErrNoTransaction = errors.New("producer: has a TransactionalID, and sends in transactions only")
	// ErrTxnOpen says that a producer has one transaction at a time.
	ErrTxnOpen = errors.New("producer: a transaction is open already")
	// ErrTxnDone says that the transaction was ended, or is being ended, by an earlier call.
	ErrTxnDone = errors.New("producer: the transaction has ended")

	// ErrAborted is the error of records that were dropped because their transaction is aborted.
	ErrAborted = errors.New("producer: the transaction is aborted")
)

// A TxnError tells what an error means for the transaction: errors.Is is true for one of ErrFatal,
// ErrAbortable and ErrOutcomeUnknown, and for the cause.
type TxnError struct {
	ID   string // the transactional id
	Op   string // what was asked for: send, commit, ...
	Kind error  // ErrFatal, ErrAbortable or ErrOutcomeUnknown
	Err  error  // why
}

func (e *TxnError) Error() string { return fmt.Sprintf("%v: %s of %q: %v", e.Kind, e.Op, e.ID, e.Err) }

// Is reports whether target is the Kind.
func (e *TxnError) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *TxnError) Unwrap() error { return e.Err }

// cause returns err without what it said of the transaction.
func cause(err error) error {
	if e, ok := err.(*TxnError); ok { // not one that somebody has wrapped: that is their error
		return e.Err
	}
	return err
}

// fencedBy reports whether an answer of the coordinator says that the id has another producer.
func fencedBy(err error) bool {
	return errors.Is(err, transaction.ErrProducerFenced) || errors.Is(err, transaction.ErrInvalidProducerMapping)
}

// askAgain reports whether a request that a coordinator refused is worth repeating. A coordinator
// of groups has the same errors.
func askAgain(err error) bool {
	var r interface{ Retriable() bool }
	if errors.As(err, &r) {
		return r.Retriable()
	}
	for _, passing := range []error{
		transaction.ErrConcurrent, transaction.ErrNotCoordinator, transaction.ErrCoordinatorNotAvailable,
		group.ErrNotCoordinator, group.ErrCoordinatorNotAvailable, group.ErrUncertain,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return classify(err).retriable
}
