// Package segment stores record batches in one append-only file with sparse indexes,
// byte-compatible with Apache Kafka 4.x.
//
// # Invariants
//
//   - Batches are contiguous; the next one's BaseOffset is the previous LastOffset+1 or higher
//     (compaction leaves gaps).
//   - Indexes are hints: an entry is believed only if the batch it names agrees, and wrong indexes
//     are built anew from the batches.
//   - After Sync returns nil, every batch appended before the call survives power loss. A failed
//     Sync is final.
//   - Bytes read from the disk for the first time since Open have matched their CRC before a caller
//     sees them. What the CRC does not cover is held against the neighbours (offsets, length) and
//     against Config.EpochAt (leader epoch).
//   - A reader never sees half a batch, nor one whose write failed. Readers wait for no write.
//
// # Files
//
//	00000000000000000042.log        batches, the first one has BaseOffset 42 or higher; zeros may follow the last one (preallocated)
//	00000000000000000042.index      relative last offset of a batch (4 B) | file position of it (4 B), ascending
//	00000000000000000042.timeindex  largest timestamp so far (8 B) | relative last offset of the batch that has it (4 B), ascending
//	00000000000000000042.txnindex   aborted transactions, 34 B each; there only if there are some
//
// While a segment is written to, its index entries are in memory and go to the files in large
// steps; those that a kill loses are found again by walking the headers behind the last entry.
// Offsets in the indexes are relative to the base and have 31 bits, as have positions.
//
// # Batch layout (Kafka record batch v2, big endian)
//
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	| baseOffset  8B | length 4B | leaderEpoch  4B | magic  1B | crc  4B | ... |
//	+----------------+-----------+-----------------+-----------+---------+-----+
//	                                                            CRC-32C of all that follows it
package segment
