package offsets

import "unicode/utf16"

// Topic is the internal topic that holds committed offsets and group states.
const Topic = "__consumer_offsets"

// PartitionFor returns the partition of the offsets topic that owns group: its Java string hash,
// absolute, modulo partitions (at least 1).
func PartitionFor(group string, partitions int32) int32 {
	var h int32
	for _, r := range group {
		if r1, r2 := utf16.EncodeRune(r); r1 != '\ufffd' {
			h = 31*h + r1
			r = r2
		}
		h = 31*h + r
	}
	if h < 0 {
		h = -h
	}
	if h < 0 { // the smallest int32 has no absolute value: Kafka's Utils.abs makes it 0
		h = 0
	}
	return h % partitions
}
