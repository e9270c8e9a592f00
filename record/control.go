package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the purpose of a control batch. Readers skip unknown types.
type ControlType int16

const (
	ControlAbort        ControlType = 0 // aborts a transaction: readers skip its records
	ControlCommit       ControlType = 1 // commits a transaction: readers return its records
	ControlLeaderChange ControlType = 2 // this and the following occur only in Kafka's metadata log
)

// ControlInfo holds the batch fields around a control record.
type ControlInfo struct {
	BaseOffset    int64
	LeaderEpoch   int32
	TimestampMs   int64
	ProducerID    int64
	ProducerEpoch int16
}

// Versions and sizes of a transaction marker (Kafka: ControlRecordType, EndTxnMarker.json).
const (
	markerKeySize   = 4 // version, type
	markerValueSize = 6 // version, coordinator epoch
)

// ControlBatch appends a transaction marker, ControlAbort or ControlCommit, to dst. The marker is a
// separate batch of 78 bytes with one offset. coordinatorEpoch fences markers of an older
// transaction coordinator.
func ControlBatch(dst []byte, kind ControlType, coordinatorEpoch int32, info ControlInfo) []byte {
	var key [markerKeySize]byte
	var value [markerValueSize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(kind))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	var b Builder
	b.SetBaseOffset(info.BaseOffset)
	b.SetLeaderEpoch(info.LeaderEpoch)
	b.SetProducer(info.ProducerID, info.ProducerEpoch, -1)
	b.attributes = attrTransactional | attrControl
	b.AppendKV(info.TimestampMs, key[:], value[:], nil)
	return append(dst, b.Bytes()...)
}

// Control parses a control batch. coordinatorEpoch is -1 unless the type is ControlAbort or
// ControlCommit. It returns ErrEmpty if compaction removed the marker and kept the header, and an
// error matching ErrCorrupt if b holds no control record.
func (b *Batch) Control() (kind ControlType, coordinatorEpoch int32, err error) {
	if !b.IsControl() {
		return 0, -1, fmt.Errorf("%w: no control batch", ErrCorrupt)
	}
	it, err := b.Records(0)
	if err != nil {
		return 0, -1, err
	}
	var r Record
	ok, err := it.Next(&r)
	if err != nil {
		return 0, -1, err
	}
	if !ok {
		return 0, -1, ErrEmpty
	}
	if len(r.Key) < markerKeySize || binary.BigEndian.Uint16(r.Key) > 1<<15-1 {
		return 0, -1, fmt.Errorf("%w: control record with a key of %d bytes", ErrCorrupt, len(r.Key))
	}
	// A higher version only adds fields: read the known ones.
	kind = ControlType(binary.BigEndian.Uint16(r.Key[2:]))
	if kind != ControlAbort && kind != ControlCommit {
		return kind, -1, nil
	}
	if len(r.Value) < markerValueSize {
		return 0, -1, fmt.Errorf("%w: transaction marker with a value of %d bytes", ErrCorrupt, len(r.Value))
	}
	return kind, int32(binary.BigEndian.Uint32(r.Value[2:])), nil
}
