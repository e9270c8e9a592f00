package segment

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/stratalog/strata/record"
)

// RecoverOptions are the facts by which Recover tells a torn tail from damage.
type RecoverOptions struct {
	// SameBoot says that the machine has not been restarted since the segment was written, so that
	// what was written is there: only an incomplete last batch, or zeros behind the last one, can
	// be torn. Headers are walked from the last index entry; CRCs are checked when read.
	SameBoot bool
	// RecoveryPoint is the offset below which everything was on stable storage: nothing below it
	// can be torn.
	RecoveryPoint int64
	// UnsyncedWindow is the most bytes that can have been written and not synced. Valid data
	// further behind an invalid byte than that proves damage. Used without SameBoot. 0: unlimited,
	// the first invalid byte is where it is cut.
	UnsyncedWindow int64
	// Full checks every byte and builds the indexes anew, whatever SameBoot says.
	Full bool
	// KeepTail leaves bytes that would be cut alone, for files that must not be changed, or not
	// yet: the end is before them all the same, and CutTail takes them away.
	KeepTail bool
	// Active says that the segment goes on taking appends. A few index entries that the files lack
	// stay in memory then, as those of any active segment do: an open after a kill need not create
	// two files for each of many segments.
	Active bool
	// Batch, if set, is called for every batch looked at, in order; the Batch's records are there
	// only if its CRC was checked. All batches are looked at then.
	Batch func(b *record.Batch) error
}

// A Report says what Recover found.
type Report struct {
	Batches      int   // looked at
	ScannedBytes int64 // from the first of them to the end
	CutBytes     int64 // behind the last good batch, not counting zeros
	CutAt        int64 // file position of the cut
	ZeroBytes    int64 // preallocated tail
	RebuiltIndex bool  // the index files did not have what the batches say
}

// Recover finds the end of a segment that was not closed in order: it walks the batches, cuts what
// a crash left behind the last good one, and completes the indexes. It returns *CorruptError, and
// changes nothing, if there are invalid bytes that no crash can explain.
//
// Not told from a torn write, because nothing in the file tells: damage to the very last batch,
// where it is above the recovery point. For the writer, before anything else. The cut is not
// synced, nor is what was found: the next Sync does that.
func (s *Segment) Recover(o RecoverOptions) (Report, error) {
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return Report{}, fmt.Errorf("recover: %w", err)
	}
	rep, err := s.recover(f, o)
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	if err != nil {
		return rep, fmt.Errorf("recover: %w", err)
	}
	return rep, nil
}

func (s *Segment) recover(f *openFile, o RecoverOptions) (rep Report, err error) {
	size, err := f.file.Size()
	if err != nil {
		return rep, err
	}
	buf := walkBuffers.Get().(*[walkBytes]byte)
	defer walkBuffers.Put(buf)
	w := &walk{s: s, f: f, o: o, size: size, buf: buf[:]}
	if w.old, err = s.readIndexes(size); err != nil {
		return rep, err
	}
	if err := w.start(size); err != nil {
		return rep, err
	}
	bad, err := w.run()
	if err == nil {
		err = w.judge(bad, &rep)
	}
	if err == nil {
		err = w.finish(&rep)
	}
	if err == nil && s.cfg.ReadOnly { // the walk may have come upon a marker that is younger than what Open read
		if now, err := s.readAbortedFile(); err == nil && len(now) > len(s.aborted) {
			s.aborted = now
		}
	}
	s.indexStays = o.Active && w.keepsIndex()
	if err != nil || o.KeepTail || s.cfg.ReadOnly {
		return rep, err
	}
	return rep, s.finishRecovery()
}

// CutTail does what Recover with KeepTail has left to do: it cuts the file behind its last good
// batch and completes the indexes. For the writer, before anything else. The cut is not synced: the
// next Sync does that.
func (s *Segment) CutTail() error {
	f, err := s.cfg.Files.acquire(s)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	size := s.Size()
	if s.Allocated() > size {
		if err = f.file.Truncate(size); err != nil {
			err = fmt.Errorf("cut %s to %d bytes: %w", s.Path(), size, err)
		} else {
			s.mu.Lock()
			s.alloc = size
			s.mu.Unlock()
		}
	}
	if released := s.cfg.Files.release(f); err == nil {
		err = released
	}
	if err == nil {
		err = s.finishRecovery()
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// finishRecovery brings the indexes in line with the end.
func (s *Segment) finishRecovery() error {
	if err := s.cutAborted(s.NextOffset()); err != nil {
		return err
	}
	if s.indexStays {
		return nil
	}
	if s.flushIndex(flushFinal) == nil { // as Kafka does; where it fails the entries stay in memory
		s.mu.Lock()
		s.dropIndexLocked()
		s.mu.Unlock()
	}
	return nil
}

// keepsIndex reports whether the entries may stay in memory: few, and none in the files that
// contradict them.
func (w *walk) keepsIndex() bool {
	x := &w.index
	return len(x.offsets) <= fewIndexEntries && len(x.times) <= fewIndexEntries && (!x.rewritten || len(w.old.offsets)+len(w.old.times) == 0)
}

// fewIndexEntries is how many entries of an active segment Recover does not write.
const fewIndexEntries = 16

// walkBytes is how much a walk reads at once.
const walkBytes = 256 << 10

// walkBuffers holds the buffers of walks: a start of many logs after a kill would spend more on
// allocating one for each than on reading. A buffer belongs to one walk from Get to Put; batches
// shown to RecoverOptions.Batch alias it.
var walkBuffers = sync.Pool{New: func() any { return new([walkBytes]byte) }}

// A walk goes over the batches of a file that may end anywhere.
type walk struct {
	s     *Segment
	f     *openFile
	o     RecoverOptions
	size  int64 // of the file
	old   index // as found in the files
	buf   []byte
	from  int64 // buf[:have] holds the file from here
	have  int
	now   record.Batch // the one looked at; in here, since it would be one allocation each
	began int64

	pos     int64 // behind the last good batch
	last    int64 // position of the last good batch; -1: none was looked at
	next    int64 // offset after it
	epoch   int32 // its leader epoch; they never fall
	newest  timestampAt
	first   int64
	index   index
	batches int
}

// full reports whether CRCs are checked.
func (w *walk) full() bool { return w.o.Full || !w.o.SameBoot }

// start begins a walk over the first size bytes: at the last index entry that the batches confirm,
// or at the start of the file.
func (w *walk) start(size int64) error {
	s := w.s
	w.size, w.pos, w.began, w.last, w.next, w.epoch, w.batches, w.have = size, 0, 0, -1, s.base, -1, 0, 0
	w.newest, w.first, w.index = timestampAt{-1, s.base}, math.MinInt64, index{loaded: true}
	if w.full() || w.o.Batch != nil {
		return nil
	}
	n := len(w.old.offsets)
	for tries := 0; n > 0; n-- {
		e := w.old.offsets[n-1]
		if int64(e.pos)+record.HeaderSize > size {
			continue // of a batch that is not there
		}
		_, ok, err := w.confirms(e)
		if err != nil {
			return err
		}
		if ok {
			return w.startAt(n)
		}
		if tries++; tries > 2 { // more wrong entries than a crash explains
			return nil
		}
	}
	return nil
}

// confirms reports whether the batch that e points at ends as e says.
func (w *walk) confirms(e offsetEntry) (record.Batch, bool, error) {
	b, err := w.header(int64(e.pos))
	if errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt) {
		return b, false, nil
	}
	return b, err == nil && b.LastOffset() == w.s.base+int64(e.rel) && b.BaseOffset >= w.s.base, err
}

// startAt begins at entry n-1 of the offset index or before it: where the time index ends, so that
// entries missing there are found. It begins at the start of the file if some of the entries before
// it, which are looked at, are wrong.
func (w *walk) startAt(n int) error {
	offsets, base := w.old.offsets, w.s.base
	for i := 1; i <= 8 && n > 1; i++ {
		if _, ok, err := w.confirms(offsets[(n-1)*i/9]); err != nil || !ok {
			return err
		}
	}
	times := timesUpTo(w.old.times, offsets[n-1].rel)
	if len(times) == 0 {
		return nil
	}
	end := times[len(times)-1]
	if ok, err := w.confirmsTime(end, n); err != nil || !ok {
		return err
	}
	for ; n > 0 && offsets[n-1].rel > end.rel; n-- {
	}
	if n == 0 {
		return nil
	}
	e := offsets[n-1]
	times = timesUpTo(times, e.rel)
	b, ok, err := w.confirms(e)
	if err != nil || !ok || len(times) == 0 {
		return err
	}
	last := times[len(times)-1]
	if ok, err := w.confirmsTime(last, n); err != nil || !ok || b.MaxTimestamp > last.ts {
		return err
	}
	w.index = w.old
	w.index.offsets, w.index.times = offsets[:n:n], times[:len(times):len(times)]
	w.index.rewritten = w.old.rewritten || n < w.old.flushedO || len(times) < w.old.flushedT
	w.index.since = math.MinInt32 // the entry's own batch comes first, without another entry
	w.pos, w.next, w.began, w.newest = int64(e.pos), b.BaseOffset, int64(e.pos), timestampAt{last.ts, base + int64(last.rel)}
	return nil
}

func timesUpTo(times []timeEntry, rel int32) []timeEntry {
	for len(times) > 0 && times[len(times)-1].rel > rel {
		times = times[:len(times)-1]
	}
	return times
}

// confirmsTime reports whether the batch that e names has e's timestamp. It lies between two of the
// first n offset entries.
func (w *walk) confirmsTime(e timeEntry, n int) (bool, error) {
	x := index{offsets: w.old.offsets[:n]}
	pos, before := int64(0), w.s.base
	if o, ok := x.before(int64(e.rel)); ok {
		pos, before = int64(o.pos), w.s.base
	}
	for {
		b, err := w.header(pos)
		switch {
		case errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt):
			return false, nil
		case err != nil:
			return false, err
		case b.BaseOffset < before:
			return false, nil
		case b.LastOffset() >= w.s.base+int64(e.rel):
			return b.LastOffset() == w.s.base+int64(e.rel) && b.MaxTimestamp == e.ts, nil
		}
		before, pos = b.NextOffset(), pos+int64(b.Size())
	}
}

var errEnd = errors.New("the file ends before the batch does")

// header reads the header at pos; errEnd if the file ends before it does.
func (w *walk) header(pos int64) (record.Batch, error) {
	if err := w.fill(pos, record.HeaderSize); err != nil {
		return record.Batch{}, err
	}
	return record.ParseHeader(w.buf[pos-w.from : w.have])
}

// parse parses the batch at w.pos to w.now, of which n bytes or more must be there; errEnd if the
// file ends before they do.
func (w *walk) parse(n int) error {
	if at := w.pos - w.from; at < 0 || at+int64(n) > int64(w.have) {
		if err := w.fill(w.pos, n); err != nil {
			return err
		}
	}
	return record.ParseInto(&w.now, w.buf[w.pos-w.from:w.have])
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
	if !w.full() { // skipping from header to header: far ahead only while several lie in what is read
		if m = 4 * w.have; pos > w.from+int64(w.have) {
			m = 0
		}
		m = min(max(m, n, 4096), max(n, scanBytes), len(w.buf))
	}
	m = int(min(int64(m), w.size-pos))
	w.have = 0
	if err := w.s.readFull(w.f, w.buf[:m], pos); err != nil {
		return err
	}
	w.from, w.have = pos, m
	return nil
}

// run walks up to the first bytes that are no good batch and says what is wrong with them; nil at
// the end of the file.
func (w *walk) run() (bad error, err error) {
	for w.pos < w.size {
		reason, err := w.batch()
		if err != nil || reason != nil {
			return reason, err
		}
		b := &w.now
		if w.o.Batch != nil {
			if err := w.o.Batch(b); err != nil {
				return nil, err
			}
		}
		w.newest.raise(b, place{})
		if w.pos == 0 {
			w.first = b.MaxTimestamp
		}
		switch {
		case w.index.since < 0: // the batch of the index entry that the walk began at
			w.index.since = b.Size()
		case w.index.since > w.s.cfg.IndexIntervalBytes:
			w.index.add(InfoOf(b), w.s.base, w.pos, w.newest, w.s.cfg.IndexIntervalBytes)
		default: // as add would, most of the time
			w.index.since += b.Size()
		}
		w.batches++
		w.last = w.pos
		w.pos += int64(b.Size())
		w.next = b.NextOffset()
		w.epoch = max(w.epoch, b.LeaderEpoch)
	}
	return nil, nil
}

// batch looks at the bytes at w.pos and parses them to w.now. reason says why they are no good
// batch; err is a failure to look.
func (w *walk) batch() (reason, err error) {
	if err := w.parse(record.HeaderSize); err != nil {
		return noBatch(err)
	}
	b := &w.now
	switch {
	case !w.follows(b):
		return fmt.Errorf("offsets %d to %d where %d is next", b.BaseOffset, b.LastOffset(), w.next), nil
	case b.LeaderEpoch >= 0 && b.LeaderEpoch < w.epoch: // left of something that was cut off
		return fmt.Errorf("leader epoch %d behind %d", b.LeaderEpoch, w.epoch), nil
	case w.stale(b):
		return fmt.Errorf("leader epoch %d at an offset of a later one", b.LeaderEpoch), nil
	case w.pos+int64(b.Size()) > w.size:
		return errEnd, nil
	case !w.full():
		return nil, nil
	}
	if n := b.Size(); len(b.Bytes()) < n { // only its header was there
		if err := w.parse(n); err != nil {
			return noBatch(err)
		}
	}
	return b.VerifyCRC(), nil
}

// noBatch tells what a failed parse says about the bytes from a failure to read them.
func noBatch(err error) (reason, failure error) {
	if errors.Is(err, errEnd) || errors.Is(err, record.ErrCorrupt) && !errors.As(err, new(*CorruptError)) {
		return err, nil
	}
	return nil, err
}

// stale reports whether b is left of what was cut off before a later leader began: space that a
// power cut can give back as it was.
func (w *walk) stale(b *record.Batch) bool {
	at := w.s.cfg.EpochAt
	return at != nil && !w.o.SameBoot && w.next >= w.o.RecoveryPoint && b.LeaderEpoch >= 0 && at(b.BaseOffset) > b.LeaderEpoch
}

// follows reports whether the offsets of b can come next.
func (w *walk) follows(b *record.Batch) bool {
	return b.BaseOffset >= w.next && !w.s.Overflows(b.BaseOffset) && !w.s.Overflows(b.LastOffset())
}

// finish publishes the end and cuts what is behind it.
func (w *walk) finish(rep *Report) error {
	s := w.s
	rep.Batches, rep.ScannedBytes, rep.CutAt = w.batches, w.pos-w.began, w.pos
	alloc := w.size
	if w.pos < w.size && !w.o.KeepTail && !s.cfg.ReadOnly {
		if err := w.f.file.Truncate(w.pos); err != nil {
			return fmt.Errorf("cut %s to %d bytes: %w", s.Path(), w.pos, err)
		}
		alloc = w.pos
	}
	if w.began == 0 {
		if w.old.same(&w.index) {
			w.index.flushedO, w.index.flushedT = w.old.flushedO, min(w.old.flushedT, len(w.index.times))
		} else {
			w.index.rewritten = true
			rep.RebuiltIndex = len(w.index.offsets)+len(w.index.times)+len(w.old.offsets)+len(w.old.times) > 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.index.gen = s.index.gen + 1
	s.index = w.index
	s.alloc = alloc
	if w.first != math.MinInt64 {
		s.firstTs.Store(w.first)
	}
	s.newest, s.newestKnown = w.newest, true
	s.unsynced = s.unsynced || !s.cfg.ReadOnly
	if w.full() && s.cfg.EpochAt == nil { // leader epochs are looked at by the first read: a wrong one is no reason to cut
		s.checked.add(0, w.pos)
	}
	s.publish(end{w.pos, w.next})
	return nil
}
