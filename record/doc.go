// Package record is the codec of Kafka's record batch v2: the one format in which records exist,
// from a producer's memory over the wire to the disk and back into a consumer.
//
// A Builder makes batches, Parse and Batch read them, Check validates one as a leader does, Rewrite
// and Stamp change what a leader may change, Filter takes records out for compaction, ControlBatch
// writes transaction markers. Record, Header and a few small values (TopicPartition, Offsets, Acks,
// Codec) are shared by all layers above.
//
// # Promises
//
//   - The bytes are those of Apache Kafka 4.x: what either side writes the other reads, tested byte
//     for byte.
//   - Offsets, leader epoch and base offset are not covered by the CRC: SetBaseOffset and
//     SetLeaderEpoch patch them without touching anything else.
//   - Bytes from outside never cause a panic. Sizes are checked before memory is asked for; what
//     compressed records may inflate to is bounded by the caller.
//   - No allocation per record, neither building nor reading. A record that was read aliases the
//     batch, or the memory it was decompressed to.
//   - nil and empty keys, values and header values are told apart; headers keep their order and
//     repetitions.
//
// # Batch (big endian)
//
//	 0 base offset            8   offset of the first record; a producer sends 0
//	 8 length                 4   of all that follows
//	12 partition leader epoch 4   -1 from a producer
//	16 magic                  1   2
//	17 CRC-32C                4   of all that follows
//	21 attributes             2   bits 0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
//	23 last offset delta      4   last offset - base offset, also after compaction
//	27 base timestamp         8   ms; the delete horizon if bit 6 is set
//	35 max timestamp          8   ms; the time of the append if bit 3 is set
//	43 producer id            8   -1: none
//	51 producer epoch         2
//	53 base sequence          4
//	57 record count           4
//	61 records                    one compressed stream if there is a codec
//
// # Record (zigzag varints)
//
//	length, attributes (1 byte, 0), timestamp delta, offset delta, key length (-1: nil), key, value length (-1: nil), value,
//	header count, then per header: name length, name, value length (-1: nil), value
package record
