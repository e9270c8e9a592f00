// Package txnlog has the record formats of the internal topic __transaction_state, which are
// Kafka's. Each record has the whole state of one transactional id.
//
// The formats are described in docs/format/transaction-state.md.
package txnlog

import (
	"github.com/stratalog/strata/internal/javahash"
	"github.com/stratalog/strata/internal/wire"
)

// Topic is the internal topic that holds the states of transactional ids.
const Topic = "__transaction_state"

// PartitionFor returns the partition of the topic that owns a transactional id: its Java string
// hash, absolute, modulo partitions (at least 1).
func PartitionFor(id string, partitions int32) int32 { return javahash.Partition(id, partitions) }

// ErrMalformed is matched by errors about malformed keys and values of the topic.
var ErrMalformed = wire.ErrMalformed
