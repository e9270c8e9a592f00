package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"weak"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/vfs"
)

// An AbortedTxn is one entry of the transaction index (Kafka: AbortedTxn).
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's data in this partition
	LastOffset  int64 // of the abort marker
	// LastStableOffset is the last stable offset at the time of the marker: the first offset of the
	// earliest other open transaction, else LastOffset+1.
	LastStableOffset int64
}

const abortedTxnSize = 34

// AppendTo appends the entry to p, in the format of the transaction index file.
func (t AbortedTxn) AppendTo(p []byte) []byte {
	p = binary.BigEndian.AppendUint16(p, 0)
	for _, v := range []int64{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset} {
		p = binary.BigEndian.AppendUint64(p, uint64(v))
	}
	return p
}

// AbortedSum returns a hash of the entries that ts make in a transaction index. It is never 0.
func AbortedSum(ts []AbortedTxn) uint64 {
	h := xxhash.New()
	var p [abortedTxnSize]byte
	for _, t := range ts {
		_, _ = h.Write(t.AppendTo(p[:0]))
	}
	return max(h.Sum64(), 1)
}

// SumAborted returns the AbortedSum of the entries with markers below an offset, followed by ts. It
// returns a *CorruptError if the index holds bytes that are no entry.
func (s *Segment) SumAborted(below int64, ts []AbortedTxn) (uint64, error) {
	x, err := s.txnIndex()
	if err != nil {
		return 0, err
	}
	if x.bad >= 0 {
		return 0, &CorruptError{s.name(TxnIndexSuffix), int64(x.bad), s.base, "no entry of an aborted transaction"}
	}
	n, _ := slices.BinarySearchFunc(x.entries, below, func(t AbortedTxn, below int64) int { return cmp.Compare(t.LastOffset, below) })
	return AbortedSum(slices.Concat(x.entries[:n], ts)), nil
}

// CheckAborted returns a *CorruptError if the transaction index does not have the entries of
// NoteAborted, and nil where none were noted.
func (s *Segment) CheckAborted() error {
	noted := s.notedAborted.Load()
	if noted == 0 {
		return nil
	}
	sum, err := s.SumAborted(math.MaxInt64, nil)
	if err == nil && sum != noted {
		err = &CorruptError{s.name(TxnIndexSuffix), 0, s.base, "entries of aborted transactions are missing or changed"}
	}
	return err
}

// NoteAborted keeps the AbortedSum of the segment's entries; 0 means unknown. The segment does not
// use it: it is for the state of the log. It is safe for concurrent use, as NotedAborted is.
func (s *Segment) NoteAborted(sum uint64) { s.notedAborted.Store(sum) }

// NotedAborted returns the value of the last NoteAborted, 0 before the first.
func (s *Segment) NotedAborted() uint64 { return s.notedAborted.Load() }

// AppendAborted adds an entry to the transaction index file, and creates the file for the first
// one. Entries must be in the order of their markers. It does not sync. After an error the entry is
// removed again, if the disk permits that. Only the writer may call it.
func (s *Segment) AppendAborted(t AbortedTxn) (err error) {
	s.noAborted.Store(false)
	defer s.txns.edition.Add(1)
	f, err := s.cfg.FS.OpenFile(s.name(TxnIndexSuffix), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	if _, err = f.WriteAt(t.AppendTo(make([]byte, 0, abortedTxnSize)), size/abortedTxnSize*abortedTxnSize); err != nil {
		return fmt.Errorf("write transaction index: %w", errors.Join(err, f.Truncate(size)))
	}
	return nil
}

// ResetAborted removes the entries for markers at or above below from the transaction index, and
// appends ts. A partial entry that a power failure left is removed too. The file is replaced as a
// whole, durably, so that the disk always has the entries below. It is never removed: an existing
// file shows that there were aborted transactions. A file that has the right content already is not
// replaced unless sync is set; set it if the writer of the file may have been killed before its
// sync, or if that sync failed. Only the writer may call ResetAborted.
func (s *Segment) ResetAborted(below int64, ts []AbortedTxn, sync bool) error {
	var old []byte
	var err error
	if !s.noAborted.Load() {
		old, err = s.readAbortedBytes()
	}
	if err != nil {
		return fmt.Errorf("reset transaction index: %w", err)
	}
	known, _ := s.parseAborted(old)
	p := make([]byte, 0, (len(known)+len(ts))*abortedTxnSize)
	for _, t := range known {
		if t.LastOffset < below {
			p = t.AppendTo(p)
		}
	}
	for _, t := range ts {
		p = t.AppendTo(p)
	}
	switch {
	case !bytes.Equal(p, old) || len(ts) > 0 && sync:
		s.noAborted.Store(false)
		defer s.txns.edition.Add(1)
		err = vfs.WriteFile(s.cfg.FS, s.name(TxnIndexSuffix), p)
	case old != nil && sync:
		err = s.cfg.FS.SyncDir(s.dir) // or a power cut may bring back the file that had this one's name
	}
	if err != nil {
		return fmt.Errorf("reset transaction index: %w", err)
	}
	return nil
}

// Aborted returns the entries that may overlap the records of [from, upper). done means that later
// segments have none. It returns a *CorruptError if the index has an invalid entry, and ErrClosed
// once the segment is removed, unless it was acquired at that time.
func (s *Segment) Aborted(from, upper int64) (ts []AbortedTxn, done bool, err error) {
	x, err := s.txnIndex()
	if err != nil {
		return nil, false, err
	}
	first, _ := slices.BinarySearchFunc(x.entries, from, func(t AbortedTxn, from int64) int { return cmp.Compare(t.LastOffset, from) })
	for _, t := range x.entries[first:] {
		if t.FirstOffset < upper {
			ts = append(ts, t)
		}
		if t.LastStableOffset >= upper {
			return ts, true, nil
		}
	}
	if x.bad >= 0 {
		return nil, false, &CorruptError{s.name(TxnIndexSuffix), int64(x.bad), from, "no entry of an aborted transaction"}
	}
	return ts, false, nil
}

// A txnIndex is the content of a transaction index.
type txnIndex struct {
	edition uint64       // of the index when it was read
	entries []AbortedTxn // in the order of their markers, LastOffset
	bad     int          // position of the first bytes behind them that cannot be an entry; -1: none
}

// txnIndexCache keeps the last txnIndex, so that a fetch among many aborted transactions does not
// read all of them. The collector may free it: it is read again.
type txnIndexCache struct {
	edition atomic.Uint64 // counts the changes of the index. Incremented by the writer, after a change
	last    atomic.Pointer[weak.Pointer[txnIndex]]
}

// noTxnIndex is the index of a segment without aborted transactions.
var noTxnIndex = txnIndex{bad: -1}

// txnIndex returns the content of the transaction index. Entries appended meanwhile may be in it.
func (s *Segment) txnIndex() (*txnIndex, error) {
	c := &s.txns
	edition := c.edition.Load() // first: a later change is another edition
	if last := c.last.Load(); last != nil && !s.removed.Load() {
		if x := last.Value(); x != nil && x.edition == edition {
			return x, nil
		}
	}
	p, err := s.readAborted()
	if err != nil || len(p) == 0 {
		return &noTxnIndex, err
	}
	x := &txnIndex{edition: edition}
	x.entries, x.bad = s.parseAborted(p)
	held := weak.Make(x)
	c.last.Store(&held)
	return x, nil
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

// readAbortedFile is readAborted from the file.
func (s *Segment) readAbortedFile() (p []byte, err error) {
	p, err = s.readAbortedBytes()
	return p[:len(p)/abortedTxnSize*abortedTxnSize], err
}

// maxAbortedBytes is above the size of a transaction index with an entry for each marker that a
// segment of 2 GiB can have.
const maxAbortedBytes = 1 << 30

// readAbortedBytes returns all bytes of the transaction index.
func (s *Segment) readAbortedBytes() (p []byte, err error) {
	f, size, err := s.openIndex(TxnIndexSuffix)
	if s.removed.Load() { // the file under this name may be another segment's
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
	if size > maxAbortedBytes {
		return nil, &CorruptError{s.name(TxnIndexSuffix), maxAbortedBytes, s.base, fmt.Sprintf("%d bytes are too many for a transaction index", size)}
	}
	p = make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(p)) {
		return nil, fmt.Errorf("read transaction index: %w", err)
	}
	return p, nil
}

// parseAborted returns the entries of p up to the first bytes that cannot be one, and the position
// of those, -1 if there are none.
func (s *Segment) parseAborted(p []byte) (ts []AbortedTxn, bad int) {
	ts, last := make([]AbortedTxn, 0, len(p)/abortedTxnSize), s.base-1
	for pos := 0; pos+abortedTxnSize <= len(p); pos += abortedTxnSize {
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
