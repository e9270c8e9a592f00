// Package segment stores record batches in one append-only file with sparse indexes,
// byte-compatible with Apache Kafka 4.x. Package log manages many segments, with rolling, retention
// and recovery.
//
// # Invariants
//
//   - Batches are contiguous; the next one's BaseOffset is the previous LastOffset+1 or higher
//     (compaction leaves gaps).
//   - Indexes are hints: an entry is used only if the batch at its position agrees with it, and
//     invalid indexes are rebuilt from the batches.
//   - After Sync returns nil, every batch appended before the call survives power loss. A failed
//     Sync is final.
//   - Bytes that are read from the disk for the first time since Open are verified with their CRC
//     before a caller receives them. Fields that the CRC does not cover are compared with the
//     neighbouring batches (offsets, length) and with Config.EpochAt (leader epoch).
//   - A reader never receives a partial batch, nor a batch whose write failed. Readers do not wait
//     for writes.
//
// # Files
//
//	00000000000000000042.log        batches from offset 42 on; zeros may follow (preallocated)
//	00000000000000000042.index      relative last offset of a batch (4 B) | its position (4 B)
//	00000000000000000042.timeindex  largest timestamp so far (8 B) | relative last offset (4 B)
//	00000000000000000042.txnindex   aborted transactions, 34 B each; only if there are any
//
// While a segment receives appends, its index entries are in memory and are written to the files in
// large steps. Entries that a killed process loses are found again by walking the headers after the
// last entry. Offsets in the indexes are relative to the base and have 31 bits, as positions do.
//
// # Batch layout (Kafka record batch v2, big endian)
//
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	| baseOffset  8B | length 4B | leaderEpoch  4B | magic  1B | crc  4B | ... |
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	                                                            CRC-32C of all that follows it
package segment
