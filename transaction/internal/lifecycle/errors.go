package lifecycle

import "errors"

// What the coordinator answers. The names in brackets are Kafka's error codes.
var (
	ErrInvalidTimeout         = errors.New("transaction: timeout out of range")                        // INVALID_TRANSACTION_TIMEOUT
	ErrInvalidProducerMapping = errors.New("transaction: not the producer id of the transactional id") // INVALID_PRODUCER_ID_MAPPING
	ErrProducerFenced         = errors.New("transaction: a newer producer has the transactional id")   // PRODUCER_FENCED; INVALID_PRODUCER_EPOCH to old clients
	ErrConcurrent             = errors.New("transaction: the one before is being ended")               // CONCURRENT_TRANSACTIONS: retry
	ErrInvalidState           = errors.New("transaction: not possible in the transaction's state")     // INVALID_TXN_STATE
	ErrAbortable              = errors.New("transaction: partition is not in the transaction")         // TRANSACTION_ABORTABLE: abort it

	// ErrNoProducerID is for the owner, not for clients: the request needs a producer id that
	// nobody ever had. It has changed nothing and is to be repeated with a NewID.
	ErrNoProducerID = errors.New("transaction: a producer id is needed")
)
