package offsets

import "github.com/stratalog/strata/internal/javahash"

// Topic is the internal topic that holds committed offsets and group states.
const Topic = "__consumer_offsets"

// PartitionFor returns the partition of the offsets topic that stores group: its Java string hash,
// absolute, modulo partitions (at least 1).
func PartitionFor(group string, partitions int32) int32 { return javahash.Partition(group, partitions) }
