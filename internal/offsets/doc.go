// Package offsets reads and writes the records of the internal topic __consumer_offsets, in Kafka's
// formats: committed offsets, and groups of the classic protocol and of the newer one (KIP-848).
//
// docs/format/consumer-offsets.md describes the formats.
package offsets

import "github.com/stratalog/strata/internal/wire"

// ErrMalformed is matched by errors for bytes that are not a key or value of the topic.
var ErrMalformed = wire.ErrMalformed
