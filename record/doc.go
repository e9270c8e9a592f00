// Package record implements Kafka's record batch v2, the format of records in a producer's memory,
// on the wire, on disk and in consumers.
//
// Most applications only use Record, Header and a few small types (TopicPartition, Offsets, Acks,
// Codec), which all packages above share. Use the other functions to build, read or check batches
// yourself: Builder makes them, Parse and Batch read them, and Check validates one as a leader
// does. Rewrite and Stamp change the fields that a leader may change, Filter removes records for
// compaction, and ControlBatch writes transaction markers.
//
// # Promises
//
//   - The bytes are those of Apache Kafka 4.x: each side reads batches written by the other, tested
//     byte for byte.
//   - The CRC does not cover base offset and leader epoch: SetBaseOffset and SetLeaderEpoch change
//     only these fields.
//   - Input from outside never causes a panic. Sizes are checked before memory is allocated; the
//     caller bounds the size of decompressed records.
//   - Neither building nor reading allocates per record. A record that was read aliases the batch
//     or its decompressed bytes.
//   - nil and empty keys, values and header values stay distinct; headers keep their order and
//     repetitions.
//
// # Batch (big endian)
//
//	 0 base offset            8   offset of the first record; a producer sends 0
//	 8 length                 4   of all that follows
//	12 partition leader epoch 4   -1 from a producer
//	16 magic                  1   2
//	17 CRC-32C                4   of all that follows
//	21 attributes             2   bits 0-2 codec, 3 append time, 4 transactional, 5 control,
//	                             6 delete horizon
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
//	length, attributes (1 byte, 0), timestamp delta, offset delta, key length (-1: nil), key,
//	value length (-1: nil), value, header count, then per header: name length, name,
//	value length (-1: nil), value
package record
