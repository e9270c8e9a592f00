package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// An AbortedTxn is one entry of the transaction index (Kafka: AbortedTxn).
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's data in this partition
	LastOffset  int64 // of the abort marker
	// LastStableOffset is that at the time of the marker: the first offset of the earliest other
	// open transaction, else LastOffset+1.
	LastStableOffset int64
}

const abortedTxnSize = 34

// AppendAborted adds an entry to the transaction index, which is made with its first one. Entries
// come in the order of their markers. It is on stable storage on return: nothing else tells, after
// a power cut, that a marker below a producer snapshot was an abort. After an error it is taken back
// if the disk does that: it would be found, and not be durable.
func (s *Segment) AppendAborted(t AbortedTxn) (err error) {
	p := binary.BigEndian.AppendUint16(make([]byte, 0, abortedTxnSize), 0)
	for _, v := range []int64{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset} {
		p = binary.BigEndian.AppendUint64(p, uint64(v))
	}
	s.noAborted.Store(false)
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
		return fmt.Errorf("write transaction index: %w", errors.Join(err, f.Truncate(size)))
	}
	return nil
}

// cutAborted removes the entries whose marker is not below end: the log has lost it, and other
// records may come to stand in its place. It also removes what a power cut left of an entry that
// was being written, and all behind it.
func (s *Segment) cutAborted(end int64) error {
	p, err := s.readAborted()
	if err != nil || len(p) == 0 {
		return err
	}
	ts, bad := s.parseAborted(p)
	n := len(ts)
	for n > 0 && ts[n-1].LastOffset >= end {
		n--
	}
	if n == len(ts) && bad < 0 {
		return nil
	}
	return s.ResetAborted(ts[:n])
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

// Aborted returns the entries that matter for records of [from, upper). done says that later
// segments have none. It returns a *CorruptError if the index holds something that is no entry,
// ErrClosed once the segment is removed, unless it was acquired at that moment.
func (s *Segment) Aborted(from, upper int64) (ts []AbortedTxn, done bool, err error) {
	p, err := s.readAborted()
	if err != nil {
		return nil, false, err
	}
	all, bad := s.parseAborted(p)
	for _, t := range all {
		if t.LastOffset >= from && t.FirstOffset < upper {
			ts = append(ts, t)
		}
		if t.LastStableOffset >= upper {
			return ts, true, nil
		}
	}
	if bad >= 0 {
		return nil, false, &CorruptError{s.name(TxnIndexSuffix), int64(bad), from, "no entry of an aborted transaction"}
	}
	return ts, false, nil
}

// readAborted returns the whole entries of the transaction index.
func (s *Segment) readAborted() (p []byte, err error) {
	if s.cfg.ReadOnly {
		return s.aborted, nil
	}
	if left := s.abortedLeft.Load(); left != nil {
		return *left, nil
	}
	if s.noAborted.Load() && !s.removed.Load() {
		return nil, nil
	}
	return s.readAbortedFile()
}

func (s *Segment) readAbortedFile() (p []byte, err error) {
	f, size, err := s.openIndex(TxnIndexSuffix)
	if s.removed.Load() { // what is there, or not there, may be another segment's
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		if left := s.abortedLeft.Load(); left != nil && err == nil {
			return *left, nil
		}
		return nil, errors.Join(err, ErrClosed)
	}
	if f == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p = make([]byte, size/abortedTxnSize*abortedTxnSize)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(p)) {
		return nil, fmt.Errorf("read transaction index: %w", err)
	}
	return p, nil
}

// parseAborted returns the entries of p up to the first bytes that cannot be one, and the position
// of those, -1 if there are none.
func (s *Segment) parseAborted(p []byte) (ts []AbortedTxn, bad int) {
	last := s.base - 1
	for pos := 0; pos < len(p); pos += abortedTxnSize {
		e := p[pos : pos+abortedTxnSize]
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(e[2+8*i:])) }
		t := AbortedTxn{at(0), at(1), at(2), at(3)}
		if binary.BigEndian.Uint16(e) != 0 || t.ProducerID < 0 || t.FirstOffset < 0 || t.FirstOffset >= t.LastOffset ||
			t.LastOffset <= last || t.LastStableOffset < 0 || t.LastStableOffset > t.LastOffset+1 {
			return ts, pos
		}
		ts, last = append(ts, t), t.LastOffset
	}
	return ts, -1
}
