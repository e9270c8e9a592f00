// Package segment stores record batches in one append-only file with sparse indexes, byte-compatible with Apache Kafka 4.x.
//
// # Invariants
//
//   - Batches are contiguous; the next one's BaseOffset is the previous LastOffset+1 or higher (compaction leaves gaps).
//   - Indexes are hints: what they say is checked against the batches, and they are built anew from them when they are wrong.
//   - After Sync returns nil, every batch appended before the call survives power loss. A failed Sync is final.
//   - Bytes read from the disk for the first time since Open have matched their CRC before a caller sees them.
//
// # Files
//
//	00000000000000000042.log        batches, the first one has BaseOffset 42 or higher; zeros may follow the last one (preallocated)
//	00000000000000000042.index      relative last offset of a batch (4 B) | file position of it (4 B), ascending
//	00000000000000000042.timeindex  largest timestamp so far (8 B) | relative last offset of the batch that has it (4 B), ascending
//	00000000000000000042.txnindex   aborted transactions, 34 B each; there only if there are some
//
// # Batch layout (Kafka record batch v2, big endian)
//
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	| baseOffset  8B | length 4B | leaderEpoch  4B | magic  1B | crc  4B | ... |
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	                                                            CRC-32C of all that follows it
package segment
