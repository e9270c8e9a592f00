package transaction

import (
	"errors"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// A Producer is a producer id with its epoch; both are -1 for none.
type Producer = lifecycle.Producer

// NoProducer is the identity of a new producer.
var NoProducer = Producer{ID: -1, Epoch: -1}

// State is the state of a transactional id.
type State = txnlog.State

// Errors of the coordinator. The comments name Kafka's error codes.
var (
	ErrInvalidTimeout         = lifecycle.ErrInvalidTimeout         // INVALID_TRANSACTION_TIMEOUT
	ErrInvalidProducerMapping = lifecycle.ErrInvalidProducerMapping // INVALID_PRODUCER_ID_MAPPING
	ErrProducerFenced         = lifecycle.ErrProducerFenced         // PRODUCER_FENCED; INVALID_PRODUCER_EPOCH to old clients
	ErrConcurrent             = lifecycle.ErrConcurrent             // CONCURRENT_TRANSACTIONS: retry
	ErrInvalidState           = lifecycle.ErrInvalidState           // INVALID_TXN_STATE
	ErrAbortable              = lifecycle.ErrAbortable              // TRANSACTION_ABORTABLE: abort it

	// ErrFull rejects a new transactional id, or partitions of a transaction, of a client that is
	// served with a bound: see docs/limits.md. POLICY_VIOLATION, which clients do not retry: memory
	// may be used up for days, until ids expire. TRANSACTION_ABORTABLE for partitions of clients
	// that support it.
	ErrFull = lifecycle.ErrFull

	ErrInvalidID = errors.New("transaction: invalid transactional id") // INVALID_REQUEST
	ErrNotFound  = errors.New("transaction: no such transactional id") // TRANSACTIONAL_ID_NOT_FOUND

	// ErrNotCoordinator is returned when another broker coordinates the id, the coordinator moves,
	// or its disk fails. NOT_COORDINATOR: find the coordinator again.
	ErrNotCoordinator = machine.ErrNotLeader
	// ErrCoordinatorNotAvailable is returned while the id has no coordinator.
	// COORDINATOR_NOT_AVAILABLE: retry.
	ErrCoordinatorNotAvailable = machine.ErrNotAvailable
	// ErrTooLarge is returned for a transaction with more partitions than fit in one record.
	ErrTooLarge = machine.ErrTooLarge
	ErrClosed   = machine.ErrClosed
)
