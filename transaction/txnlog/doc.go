// Package txnlog has the record formats of the internal topic __transaction_state, which are
// Kafka's: each record is all that is remembered of one transactional id.
//
// The formats are described in docs/format/transaction-state.md.
package txnlog

import "github.com/stratalog/strata/internal/wire"

// ErrMalformed is matched by the errors of bytes that are no key or value of the topic.
var ErrMalformed = wire.ErrMalformed
