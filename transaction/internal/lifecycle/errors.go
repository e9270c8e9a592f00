package lifecycle

import "errors"

// Errors of the coordinator. The names in the comments are Kafka's error codes.
var (
	ErrInvalidTimeout         = errors.New("transaction: timeout out of range")                            // INVALID_TRANSACTION_TIMEOUT
	ErrInvalidProducerMapping = errors.New("transaction: not the producer id of the transactional id")     // INVALID_PRODUCER_ID_MAPPING
	ErrProducerFenced         = errors.New("transaction: a newer producer has the transactional id")       // PRODUCER_FENCED; INVALID_PRODUCER_EPOCH to old clients
	ErrConcurrent             = errors.New("transaction: the one before is being ended")                   // CONCURRENT_TRANSACTIONS: retry
	ErrInvalidState           = errors.New("transaction: not possible in the transaction's state")         // INVALID_TXN_STATE
	ErrAbortable              = errors.New("transaction: partition is not in the transaction")             // TRANSACTION_ABORTABLE: abort it
	ErrFull                   = errors.New("transaction: no memory is left for further ids or partitions") // POLICY_VIOLATION; TRANSACTION_ABORTABLE in a transaction of version 2

	// ErrNoProducerID is for the owner, not for clients: the request needs a new producer id. It
	// has changed nothing and is to be repeated with a NewID.
	ErrNoProducerID = errors.New("transaction: a producer id is needed")
)
