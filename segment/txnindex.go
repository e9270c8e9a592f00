package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
)

// An AbortedTxn is one entry of the transaction index (Kafka: AbortedTxn).
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction's data in this partition
	LastOffset       int64 // of the abort marker
	LastStableOffset int64 // at the time of the marker: first offset of the earliest other open transaction, else LastOffset+1
}

const abortedTxnSize = 34

// AppendAborted adds an entry to the transaction index, which is made with its first one. Entries come in the order of their markers.
// It is on stable storage on return: nothing else tells, after a power cut, that a marker below a producer snapshot was an abort.
func (s *Segment) AppendAborted(t AbortedTxn) (err error) {
	p := binary.BigEndian.AppendUint16(make([]byte, 0, abortedTxnSize), 0)
	for _, v := range []int64{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset} {
		p = binary.BigEndian.AppendUint64(p, uint64(v))
	}
	f, err := s.cfg.FS.OpenFile(s.name(TxnIndexSuffix), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	if _, err = f.WriteAt(p, size/abortedTxnSize*abortedTxnSize); err == nil {
		err = f.Sync()
	}
	if err == nil && size == 0 {
		err = s.cfg.FS.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	return nil
}

// cutAborted removes the entries whose marker is not below end: the log has lost it, and other records may come to stand in its place.
func (s *Segment) cutAborted(end int64) error {
	ts, _, err := s.Aborted(s.base, math.MaxInt64)
	if err != nil || len(ts) == 0 || ts[len(ts)-1].LastOffset < end {
		return err
	}
	return s.ResetAborted(slices.DeleteFunc(ts, func(t AbortedTxn) bool { return t.LastOffset >= end }))
}

// ResetAborted replaces the transaction index, as recovery and compaction do.
func (s *Segment) ResetAborted(ts []AbortedTxn) error {
	if err := s.cfg.FS.Remove(s.name(TxnIndexSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reset transaction index: %w", err)
	}
	for _, t := range ts {
		if err := s.AppendAborted(t); err != nil {
			return err
		}
	}
	return nil
}

// Aborted returns the entries that matter for records of [from, upper). done says that later segments have none.
func (s *Segment) Aborted(from, upper int64) (ts []AbortedTxn, done bool, err error) {
	f, err := s.cfg.FS.OpenFile(s.name(TxnIndexSuffix), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read transaction index: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, false, fmt.Errorf("read transaction index: %w", err)
	}
	p := make([]byte, size/abortedTxnSize*abortedTxnSize)
	if len(p) == 0 {
		return nil, false, nil
	}
	if _, err := f.ReadAt(p, 0); err != nil {
		return nil, false, fmt.Errorf("read transaction index: %w", err)
	}
	for ; len(p) > 0; p = p[abortedTxnSize:] {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(p[2+8*i:])) }
		t := AbortedTxn{at(0), at(1), at(2), at(3)}
		if t.LastOffset >= from && t.FirstOffset < upper {
			ts = append(ts, t)
		}
		if t.LastStableOffset >= upper {
			return ts, true, nil
		}
	}
	return ts, false, nil
}
