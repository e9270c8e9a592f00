// Package sharelog has the record formats of the internal topic __share_group_state, which are
// Kafka's: the state of the share-partitions of share groups (KIP-932), as snapshots and later
// updates.
//
// The formats are described in docs/format/share-group-state.md.
package sharelog

import (
	"github.com/stratalog/strata/internal/javahash"
	"github.com/stratalog/strata/internal/wire"
)

// Topic is the internal topic that holds the states of share-partitions.
const Topic = "__share_group_state"

// PartitionFor returns the partition of the topic that holds the share-partition with that Key.ID:
// its Java string hash, absolute, modulo partitions (at least 1).
func PartitionFor(id string, partitions int32) int32 { return javahash.Partition(id, partitions) }

// ErrMalformed is matched by errors about malformed keys and values of the topic.
var ErrMalformed = wire.ErrMalformed
