// Package offsets has the record formats of the internal topic __consumer_offsets, which are
// Kafka's: committed offsets, and groups of the classic protocol and of the newer one (KIP-848).
//
// The formats are described in docs/format/consumer-offsets.md.
package offsets

import "github.com/stratalog/strata/internal/wire"

// ErrMalformed is matched by the errors of bytes that are no key or value of the topic.
var ErrMalformed = wire.ErrMalformed
