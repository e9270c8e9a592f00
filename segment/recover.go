package segment

import (
	"errors"
	"fmt"
	"math"

	"github.com/stratalog/strata/record"
)

// RecoverOptions are the facts by which Recover tells a torn tail from damage.
type RecoverOptions struct {
	// SameBoot says that the machine has not been restarted since the segment was written, so that what was written is there: only an
	// incomplete last batch, or zeros behind the last one, can be torn. Headers are walked from the last index entry; CRCs are checked when read.
	SameBoot bool
	// RecoveryPoint is the offset below which everything was on stable storage. Used without SameBoot.
	RecoveryPoint int64
	// UnsyncedWindow is the most bytes that can have been written and not synced. Valid data further behind an invalid byte than that
	// proves damage. Used without SameBoot. 0: unlimited, the first invalid byte is where it is cut.
	UnsyncedWindow int64
	// Full checks every byte and builds the indexes anew, whatever SameBoot says.
	Full bool
	// KeepTail leaves bytes that would be cut alone, for files that must not be changed; the end is before them all the same.
	KeepTail bool
	// Batch, if set, is called for every batch looked at, in order; the Batch's records are there only if its CRC was checked.
	Batch func(b *record.Batch) error
}

// A Report says what Recover found.
type Report struct {
	Batches      int   // looked at
	ScannedBytes int64 // from the first of them to the end
	CutBytes     int64 // behind the last good batch, not counting zeros
	CutAt        int64 // file position of the cut
	ZeroBytes    int64 // preallocated tail
	RebuiltIndex bool
}

// Recover finds the end of a segment that was not closed in order: it walks the batches, cuts what a crash left behind the last good one, and
// completes the indexes. It returns *CorruptError, and changes nothing, if there are invalid bytes that no crash can explain.
func (s *Segment) Recover(o RecoverOptions) (Report, error) {
	var rep Report
	err := s.withFile(func(f *openFile) error {
		size, err := f.file.Size()
		if err != nil {
			return err
		}
		w := &walk{s: s, f: f, o: o, size: size, last: -1, next: s.base, newest: timestampAt{-1, s.base}, buf: make([]byte, min(size, 1<<20))}
		if err := w.start(); err != nil {
			return err
		}
		bad, err := w.run()
		if err != nil {
			return err
		}
		if err := w.judge(bad, &rep); err != nil {
			return err
		}
		return w.finish(&rep)
	})
	if err == nil && !s.cfg.ReadOnly {
		err = s.cutAborted(s.NextOffset())
	}
	if err != nil {
		return rep, fmt.Errorf("recover: %w", err)
	}
	return rep, nil
}

// A walk goes over the batches of a file that may end anywhere.
type walk struct {
	s     *Segment
	f     *openFile
	o     RecoverOptions
	size  int64 // of the file
	buf   []byte
	from  int64 // buf[:have] holds the file from here
	have  int
	began int64

	pos     int64 // behind the last good batch
	last    int64 // position of the last good batch; -1: none was looked at
	next    int64 // offset after it
	newest  timestampAt
	first   int64
	index   index
	batches int
}

// full reports whether CRCs are checked.
func (w *walk) full() bool { return w.o.Full || !w.o.SameBoot }

// start finds where to begin: at the last index entry that a batch confirms, or at the start of the file.
func (w *walk) start() error {
	w.first = math.MinInt64
	s := w.s
	s.mu.Lock()
	s.index = index{}
	err := s.loadIndexLocked()
	idx := s.index
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if w.full() || w.o.Batch != nil || len(idx.offsets) == 0 {
		return nil
	}
	for n := len(idx.offsets); n > 0; n-- {
		e := idx.offsets[n-1]
		b, err := w.header(int64(e.pos))
		if err != nil || b.LastOffset() != s.base+int64(e.rel) || b.BaseOffset < s.base {
			continue // past the end, or wrong: the entry before
		}
		if n < len(idx.offsets)-2*indexFlushEntries || !w.confirmed(idx, n-1) {
			return nil // more wrong entries than a crash explains: build it anew
		}
		idx.cut(int64(e.pos)+1, math.MaxInt64, s.base)
		idx.cutTimes(e.rel)
		w.index, w.pos, w.next = idx, int64(e.pos), b.BaseOffset
		if m := len(idx.times); m > 0 {
			w.newest = timestampAt{idx.times[m-1].ts, s.base + int64(idx.times[m-1].rel)}
		}
		w.index.since = math.MinInt32 // the entry's own batch comes first, without another entry
		w.began = w.pos
		return nil
	}
	return nil
}

// confirmed spot-checks the index at a few places below entry i.
func (w *walk) confirmed(idx index, i int) bool {
	for _, j := range []int{0, i / 2, max(i-1, 0)} {
		e := idx.offsets[j]
		b, err := w.header(int64(e.pos))
		if err != nil || b.LastOffset() != w.s.base+int64(e.rel) {
			return false
		}
	}
	return true
}

// cutTimes drops time entries of batches behind the one that ends at rel.
func (x *index) cutTimes(rel int32) {
	m := len(x.times)
	for m > 0 && x.times[m-1].rel > rel {
		m--
	}
	x.rewritten = x.rewritten || m < x.flushedT
	x.times = x.times[:m]
}

var errEnd = errors.New("end of file")

// header reads the header at pos; errEnd if the file ends before it does.
func (w *walk) header(pos int64) (record.Batch, error) {
	if err := w.fill(pos, record.HeaderSize); err != nil {
		return record.Batch{}, err
	}
	return record.ParseHeader(w.buf[pos-w.from : w.have])
}

// fill makes buf hold [pos, pos+n); errEnd if the file does not.
func (w *walk) fill(pos int64, n int) error {
	if pos+int64(n) > w.size {
		return errEnd
	}
	if pos >= w.from && pos+int64(n) <= w.from+int64(w.have) {
		return nil
	}
	if n > len(w.buf) {
		w.buf = make([]byte, n)
	}
	m := len(w.buf)
	if !w.full() {
		m = min(m, max(n, 4096))
	}
	m = int(min(int64(m), w.size-pos))
	if err := w.s.readFull(w.f, w.buf[:m], pos); err != nil {
		return err
	}
	w.from, w.have = pos, m
	return nil
}

// run walks up to the first bytes that are no good batch and says what is wrong with them; nil at the end of the file.
func (w *walk) run() (bad error, err error) {
	for w.pos < w.size {
		b, reason, err := w.batch()
		if err != nil || reason != nil {
			return reason, err
		}
		if w.o.Batch != nil {
			if err := w.o.Batch(&b); err != nil {
				return nil, err
			}
		}
		info := InfoOf(&b)
		if b.MaxTimestamp > w.newest.ts {
			w.newest = timestampAt{b.MaxTimestamp, b.LastOffset()}
		}
		if w.pos == 0 {
			w.first = b.MaxTimestamp
		}
		if w.index.since < 0 { // the batch of the index entry that the walk began at
			w.index.since = info.Size
		} else {
			w.index.add(info, w.s.base, w.pos, w.newest, w.s.cfg.IndexIntervalBytes)
		}
		w.batches++
		w.last = w.pos
		w.pos += int64(info.Size)
		w.next = b.NextOffset()
	}
	return nil, nil
}

// batch looks at the bytes at w.pos. reason says why they are no good batch; err is a failure to look.
func (w *walk) batch() (b record.Batch, reason, err error) {
	b, err = w.header(w.pos)
	switch {
	case errors.Is(err, errEnd):
		return b, errEnd, nil
	case errors.Is(err, record.ErrCorrupt):
		return b, err, nil
	case err != nil:
		return b, nil, err
	case b.BaseOffset < w.next || b.LastOffset()-w.s.base > maxRelativeOffset:
		return b, fmt.Errorf("offsets %d to %d where %d is next", b.BaseOffset, b.LastOffset(), w.next), nil
	case w.pos+int64(b.Size()) > w.size:
		return b, errEnd, nil
	case !w.full():
		return b, nil, nil
	}
	if err := w.fill(w.pos, b.Size()); err != nil {
		return b, nil, err
	}
	p := w.buf[w.pos-w.from:][:b.Size()]
	whole, _, err := record.Parse(p)
	if err != nil {
		return b, err, nil
	}
	return *whole, nil, nil
}

// judge decides whether a crash can have left what follows w.pos.
func (w *walk) judge(bad error, rep *Report) error {
	if !w.full() && w.last >= 0 {
		torn, err := w.lastIsTorn()
		if err != nil {
			return err
		}
		if torn { // the walk again, up to there
			cut := w.size - w.last
			w.size = w.last
			if bad, err := w.again(); bad != nil || err != nil {
				return errors.Join(bad, err)
			}
			rep.CutBytes = cut
			w.size += cut
			return nil
		}
	}
	if bad == nil {
		return nil
	}
	zeros, err := w.zerosFrom(w.pos)
	if err != nil {
		return err
	}
	if zeros {
		rep.ZeroBytes = w.size - w.pos
		return w.notBelowRecoveryPoint("zeros")
	}
	if w.o.SameBoot {
		if errors.Is(bad, errEnd) {
			rep.CutBytes = w.size - w.pos
			return nil
		}
		return w.s.corrupt(w.pos, w.next, bad.Error())
	}
	if err := w.notBelowRecoveryPoint(bad.Error()); err != nil {
		return err
	}
	if w.o.UnsyncedWindow > 0 {
		far, err := w.validDataBehind(w.pos + w.o.UnsyncedWindow)
		if err != nil {
			return err
		}
		if far >= 0 {
			return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%v, yet a valid batch follows at byte %d", bad, far))
		}
	}
	rep.CutBytes = w.size - w.pos
	return nil
}

func (w *walk) notBelowRecoveryPoint(what string) error {
	if !w.o.SameBoot && w.next < w.o.RecoveryPoint {
		return w.s.corrupt(w.pos, w.next, fmt.Sprintf("%s, although everything below offset %d was on stable storage", what, w.o.RecoveryPoint))
	}
	return nil
}

// zerosFrom reports whether the file holds nothing but zeros from pos on.
func (w *walk) zerosFrom(pos int64) (bool, error) {
	buf := make([]byte, 64<<10)
	for pos < w.size {
		n := int(min(int64(len(buf)), w.size-pos))
		if err := w.s.readFull(w.f, buf[:n], pos); err != nil {
			return false, err
		}
		for _, c := range buf[:n] {
			if c != 0 {
				return false, nil
			}
		}
		pos += int64(n)
	}
	return true, nil
}

// lastIsTorn reports whether the last batch, whose header is good, was being written into preallocated space when the process died: writes
// are cut at pages, so the rest of it, from a page boundary on, is zeros. Any other damage to it is a *CorruptError.
func (w *walk) lastIsTorn() (bool, error) {
	n := int(w.pos - w.last)
	if err := w.fill(w.last, n); err != nil {
		return false, err
	}
	_, _, bad := record.Parse(w.buf[w.last-w.from:][:n])
	if bad == nil {
		return false, nil
	}
	nonZero, err := w.lastNonZero()
	if err != nil {
		return false, err
	}
	const page = 4096
	if (nonZero+page)/page*page < w.pos {
		return true, nil
	}
	return false, w.s.corrupt(w.last, w.next, bad.Error())
}

// again starts the walk anew, over a file that ends earlier.
func (w *walk) again() (bad, err error) {
	w.have, w.batches, w.pos, w.last, w.next, w.began = 0, 0, 0, -1, w.s.base, 0
	w.newest, w.index = timestampAt{-1, w.s.base}, index{}
	if err := w.start(); err != nil {
		return nil, err
	}
	return w.run()
}

// lastNonZero returns the position of the file's last byte that is not zero, -1 if there is none.
func (w *walk) lastNonZero() (int64, error) {
	buf := make([]byte, 64<<10)
	for end := w.size; end > 0; {
		n := min(int64(len(buf)), end)
		if err := w.s.readFull(w.f, buf[:n], end-n); err != nil {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] != 0 {
				return end - n + i, nil
			}
		}
		end -= n
	}
	return -1, nil
}

// validDataBehind looks for a whole valid batch at or behind pos that continues the log; it returns its position, -1 if there is none.
func (w *walk) validDataBehind(pos int64) (int64, error) {
	for ; pos+record.HeaderSize <= w.size; pos++ {
		b, err := w.header(pos)
		if errors.Is(err, errEnd) {
			return -1, nil
		}
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				return 0, err
			}
			continue
		}
		if b.BaseOffset < w.next || b.LastOffset()-w.s.base > maxRelativeOffset || pos+int64(b.Size()) > w.size {
			continue
		}
		if err := w.fill(pos, b.Size()); err != nil {
			return 0, err
		}
		if _, _, err := record.Parse(w.buf[pos-w.from:][:b.Size()]); err == nil {
			return pos, nil
		}
	}
	return -1, nil
}

// finish publishes the end and cuts what is behind it.
func (w *walk) finish(rep *Report) error {
	s := w.s
	rep.Batches, rep.ScannedBytes, rep.CutAt = w.batches, w.pos-w.began, w.pos
	if w.pos < w.size && !w.o.KeepTail && !s.cfg.ReadOnly {
		if err := w.f.file.Truncate(w.pos); err != nil {
			return fmt.Errorf("cut %s to %d bytes: %w", s.Path(), w.pos, err)
		}
		w.size = w.pos
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rep.RebuiltIndex = w.began == 0 && len(w.index.offsets)+len(w.index.times) > 0 && !s.index.same(&w.index)
	if w.began == 0 && !s.index.same(&w.index) {
		w.index.rewritten = true
	}
	w.index.loaded = true
	if w.began == 0 && !w.index.rewritten {
		w.index.flushedO, w.index.flushedT = len(w.index.offsets), min(len(w.index.times), s.index.flushedT)
	}
	s.index = w.index
	s.alloc = w.size
	if w.first != math.MinInt64 {
		s.firstTs = w.first
	}
	s.newest.Store(&w.newest)
	if w.full() {
		s.checked.add(0, w.pos)
	}
	s.next.Store(w.next)
	s.size.Store(w.pos)
	return nil
}

// same reports whether y has the entries of x; x may have the final time entry in addition.
func (x *index) same(y *index) bool {
	if len(x.offsets) != len(y.offsets) || len(x.times) < len(y.times) || len(x.times) > len(y.times)+1 || x.rewritten {
		return false
	}
	for i := range y.offsets {
		if x.offsets[i] != y.offsets[i] {
			return false
		}
	}
	for i := range y.times {
		if x.times[i] != y.times[i] {
			return false
		}
	}
	return true
}
