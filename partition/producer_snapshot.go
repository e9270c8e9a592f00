package partition

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Layout of a .snapshot file (Kafka: ProducerSnapshot.json), big endian:
//
//	version i16 = 1 | CRC-32C u32 of the rest | count i32 | count x 46 bytes
//	producer id i64 | epoch i16 | last sequence i32 | last offset i64 |
//	    offset delta i32 | timestamp i64 | coordinator epoch i32 | txn first offset i64
const (
	snapshotVersion   = 1
	snapshotHeader    = 10
	snapshotEntry     = 46
	snapshotCRCOffset = 2
	snapshotCRCStart  = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadSnapshot is matched by every refusal of decodeSnapshot.
var errBadSnapshot = errors.New("invalid producer snapshot")

// appendSnapshot appends the snapshot of s to dst, ordered by producer id. Only the last batch of
// each producer fits into the format.
func (s *producers) appendSnapshot(dst []byte) []byte {
	start := len(dst)
	be := binary.BigEndian
	dst = slices.Grow(dst, snapshotHeader+len(s.m)*snapshotEntry)
	dst = be.AppendUint16(dst, snapshotVersion)
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(dst, uint32(len(s.m)))
	pids := make([]int64, 0, len(s.m))
	for pid := range s.m {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	for _, pid := range pids {
		e := s.m[pid]
		last, _ := e.last()
		dst = be.AppendUint64(dst, uint64(pid))
		dst = be.AppendUint16(dst, uint16(e.epoch))
		dst = be.AppendUint32(dst, uint32(last.lastSeq))
		dst = be.AppendUint64(dst, uint64(last.lastOffset))
		dst = be.AppendUint32(dst, uint32(last.offsetDelta))
		dst = be.AppendUint64(dst, uint64(e.timestamp))
		dst = be.AppendUint32(dst, uint32(e.coordinatorEpoch))
		dst = be.AppendUint64(dst, uint64(e.txnFirstOffset))
	}
	be.PutUint32(dst[start+snapshotCRCOffset:], crc32.Checksum(dst[start+snapshotCRCStart:], castagnoli))
	return dst
}

// load replaces the state of s, which must be new, with the snapshot p. Every producer counts as
// seen now. The timestamps of records do not show when a batch arrived, and if a producer that is
// about to retry were dropped, its batch would be duplicated (as in Kafka). An error matches
// errBadSnapshot and leaves s empty.
func (s *producers) load(p []byte, now int64) error {
	be := binary.BigEndian
	if len(p) < snapshotHeader {
		return fmt.Errorf("%w: %d bytes", errBadSnapshot, len(p))
	}
	if v := be.Uint16(p); v != snapshotVersion {
		return fmt.Errorf("%w: version %d", errBadSnapshot, v)
	}
	count := int64(be.Uint32(p[snapshotCRCStart:]))
	if want := snapshotHeader + count*snapshotEntry; int64(len(p)) != want {
		return fmt.Errorf("%w: %d entries in %d bytes", errBadSnapshot, count, len(p))
	}
	if sum := crc32.Checksum(p[snapshotCRCStart:], castagnoli); sum != be.Uint32(p[snapshotCRCOffset:]) {
		return fmt.Errorf("%w: CRC %08x, computed %08x", errBadSnapshot, be.Uint32(p[snapshotCRCOffset:]), sum)
	}
	s.m, s.txns = make(map[int64]*producerEntry, count), transactions{}
	for p = p[snapshotHeader:]; len(p) > 0; p = p[snapshotEntry:] {
		pid := int64(be.Uint64(p))
		e := &producerEntry{
			epoch: int16(be.Uint16(p[8:])), timestamp: int64(be.Uint64(p[26:])), coordinatorEpoch: int32(be.Uint32(p[34:])),
			txnFirstOffset: max(int64(be.Uint64(p[38:])), -1), seen: now,
		}
		last := seqBatch{
			lastSeq: int32(be.Uint32(p[10:])), lastOffset: int64(be.Uint64(p[14:])),
			offsetDelta: int32(be.Uint32(p[22:])), timestamp: e.timestamp,
		}
		if last.lastOffset >= 0 {
			e.push(last)
		}
		if _, twice := s.m[pid]; twice || pid < 0 || last.offsetDelta < 0 {
			s.m, s.txns = make(map[int64]*producerEntry), transactions{}
			return fmt.Errorf("%w: bad or repeated entry of producer %d", errBadSnapshot, pid)
		}
		s.m[pid] = e
		if e.txnFirstOffset >= 0 {
			s.txns.begin(pid, e.txnFirstOffset)
		}
	}
	return nil
}
