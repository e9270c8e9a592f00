package transaction

import (
	"errors"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
	"github.com/stratalog/strata/transaction/txnlog"
)

// A Producer is the identity under which a producer writes; both are -1 if there is none.
type Producer = lifecycle.Producer

// NoProducer is the identity of a producer that begins.
var NoProducer = Producer{ID: -1, Epoch: -1}

// State is the state of a transactional id.
type State = txnlog.State

// What the coordinator answers. The names in brackets are Kafka's error codes.
var (
	ErrInvalidTimeout         = lifecycle.ErrInvalidTimeout         // INVALID_TRANSACTION_TIMEOUT
	ErrInvalidProducerMapping = lifecycle.ErrInvalidProducerMapping // INVALID_PRODUCER_ID_MAPPING
	ErrProducerFenced         = lifecycle.ErrProducerFenced         // PRODUCER_FENCED; INVALID_PRODUCER_EPOCH to old clients
	ErrConcurrent             = lifecycle.ErrConcurrent             // CONCURRENT_TRANSACTIONS: retry
	ErrInvalidState           = lifecycle.ErrInvalidState           // INVALID_TXN_STATE
	ErrAbortable              = lifecycle.ErrAbortable              // TRANSACTION_ABORTABLE: abort it

	ErrInvalidID = errors.New("transaction: invalid transactional id") // INVALID_REQUEST
	ErrNotFound  = errors.New("transaction: no such transactional id") // TRANSACTIONAL_ID_NOT_FOUND

	// ErrNotCoordinator: another broker coordinates the id, or the coordinator moves, or its disk
	// fails. NOT_COORDINATOR: look for it again.
	ErrNotCoordinator = machine.ErrNotLeader
	// ErrCoordinatorNotAvailable: nobody coordinates the id just now. COORDINATOR_NOT_AVAILABLE:
	// retry.
	ErrCoordinatorNotAvailable = machine.ErrNotAvailable
	// ErrTooLarge: the transaction has more partitions than fit in one record.
	ErrTooLarge = machine.ErrTooLarge
	ErrClosed   = machine.ErrClosed
)
