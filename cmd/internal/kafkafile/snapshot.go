package kafkafile

import (
	"encoding/binary"
	"hash/crc32"
)

// A Producer is an idempotent producer in a snapshot.
type Producer struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // of its last batch; -1: none
	LastOffset       int64
	OffsetDelta      int32
	Timestamp        int64 // ms
	CoordinatorEpoch int32
	TxnFirstOffset   int64 // of its open transaction; -1: none
}

const (
	snapshotHeader = 10
	snapshotEntry  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ParseSnapshot reads a producer snapshot, all of whose bytes are p. The error matches ErrDamaged.
func ParseSnapshot(p []byte) ([]Producer, error) {
	be := binary.BigEndian
	if len(p) < snapshotHeader {
		return nil, damaged("%d bytes, too few for a snapshot", len(p))
	}
	if v := be.Uint16(p); v != 1 {
		return nil, damaged("version %d", v)
	}
	if have, want := be.Uint32(p[2:]), crc32.Checksum(p[6:], castagnoli); have != want {
		return nil, damaged("CRC %08x, computed %08x", have, want)
	}
	count := int64(be.Uint32(p[6:]))
	if int64(len(p)) != snapshotHeader+count*snapshotEntry {
		return nil, damaged("%d producers in %d bytes", count, len(p))
	}
	ps := make([]Producer, 0, count)
	for p = p[snapshotHeader:]; len(p) > 0; p = p[snapshotEntry:] {
		ps = append(ps, Producer{
			ProducerID: int64(be.Uint64(p)), Epoch: int16(be.Uint16(p[8:])), LastSequence: int32(be.Uint32(p[10:])),
			LastOffset: int64(be.Uint64(p[14:])), OffsetDelta: int32(be.Uint32(p[22:])), Timestamp: int64(be.Uint64(p[26:])),
			CoordinatorEpoch: int32(be.Uint32(p[34:])), TxnFirstOffset: int64(be.Uint64(p[38:])),
		})
	}
	return ps, nil
}
