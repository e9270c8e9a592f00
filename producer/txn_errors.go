package producer

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/transaction"
)

// Errors of transactions, for errors.Is. Errors that match ErrFatal, ErrAbortable or
// ErrOutcomeUnknown are *TxnErrors, which wrap the cause.
var (
	// ErrAbortable is returned when the transaction can no longer be committed. Abort it; the
	// producer can then begin the next one. Readers of committed records never see anything of the
	// transaction.
	ErrAbortable = errors.New("producer: the transaction has to be aborted")

	// ErrFatal is returned when the producer can no longer run transactions, including this one:
	// close it. Its cause is ErrFenced if another producer has the transactional id.
	ErrFatal = errors.New("producer: no more transactions are possible")

	// ErrOutcomeUnknown is returned when a Commit or Abort was requested and its outcome is not
	// known yet. It is retried in the background: another call of the same method waits for the
	// outcome, and so does the next Begin.
	ErrOutcomeUnknown = errors.New("producer: the outcome of the transaction is not known yet")

	// ErrNotTransactional is returned by a producer without a Config.TransactionalID.
	ErrNotTransactional = errors.New("producer: has no TransactionalID")
	// ErrNoTransaction is returned for a record sent outside a transaction by a producer with a
	// TransactionalID: use Transact, or Begin and Txn.Send.
	ErrNoTransaction = errors.New("producer: has a TransactionalID, and sends in transactions only")
	// ErrTxnOpen is returned by Begin while a transaction is open: a producer has one at a time.
	ErrTxnOpen = errors.New("producer: a transaction is open already")
	// ErrTxnDone is returned when an earlier call has ended the transaction, or is ending it.
	ErrTxnDone = errors.New("producer: the transaction has ended")

	// ErrAborted is the error of records that were dropped because their transaction is aborted.
	ErrAborted = errors.New("producer: the transaction is aborted")
)

// A TxnError states the effect of an error on the transaction. It matches one of ErrFatal,
// ErrAbortable and ErrOutcomeUnknown, and the cause.
type TxnError struct {
	ID   string // the transactional id
	Op   string // the operation: send, commit, ...
	Kind error  // ErrFatal, ErrAbortable or ErrOutcomeUnknown
	Err  error  // the cause
}

func (e *TxnError) Error() string { return fmt.Sprintf("%v: %s of %q: %v", e.Kind, e.Op, e.ID, e.Err) }

// Is reports whether target is the Kind.
func (e *TxnError) Is(target error) bool { return target == e.Kind }

// Unwrap returns the cause.
func (e *TxnError) Unwrap() error { return e.Err }

// cause returns err without the effect on the transaction.
func cause(err error) error {
	if e, ok := err.(*TxnError); ok { // not one wrapped by other code: that is its error
		return e.Err
	}
	return err
}

// fencedBy reports whether an error of the coordinator means that another producer has the id.
func fencedBy(err error) bool {
	return errors.Is(err, transaction.ErrProducerFenced) || errors.Is(err, transaction.ErrInvalidProducerMapping)
}

// isRepeatable reports whether a request rejected by a coordinator should be repeated. Group
// coordinators have the same errors.
func isRepeatable(err error) bool {
	if retriable, decided := retriable.Of(err); decided {
		return retriable
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
