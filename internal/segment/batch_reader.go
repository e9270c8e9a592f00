package segment

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/uncleared"
	"github.com/stratalog/strata/record"
)

// firstRead is how many bytes a batchReader reads before it knows how long batches are.
const firstRead = 64 << 10

// A batchReader reads and checks the whole batches of a segment from one position on, into memory
// it was given.
//
// It reads as many batches as should fit, supposing that they are as long as the next one, and not
// all that fits: that would end in the middle of a batch, whose bytes would be read again by the
// next call. With batches of 600 KB and memory of 1 MiB those are two bytes of five.
type batchReader struct {
	s     *Segment
	f     *openFile
	at    end   // of the segment
	limit int64 // no batch may reach behind this position
	check bool  // batches have to be verified

	dst   []byte // bytes read are appended to dst[:start]; its length is the bound
	start int
	first int64 // position of the byte at dst[start]
	have  int   // bytes read
	next  place // behind the last batch that was read and checked

	// sure is the place behind the last batch whose base offset is certain. The CRC does not cover
	// base offsets: the next header shows whether the offset of a batch behind a gap is too high.
	sure place
}

// offset returns the index of the next batch in the bytes read.
func (r *batchReader) offset() int { return int(r.next.pos - r.first) }

// room returns how many bytes may be read altogether.
func (r *batchReader) room() int { return len(r.dst) - r.start }

// An onDamage determines the result of a read that comes upon damage behind whole batches.
type onDamage bool

const (
	failAtDamage onDamage = false // an error
	stopAtDamage onDamage = true  // the whole batches: the next read returns the error
)

// run calls readAll, and returns its result as do requires. The damage begins with the first batch
// whose base offset is not certain.
func (r *batchReader) run(do onDamage) error {
	err := r.readAll()
	damage, ok := errors.AsType[*CorruptError](err)
	if ok && damage.Pos > r.sure.pos && r.next.pos > r.sure.pos {
		damage.Reason = fmt.Sprintf("the batch at byte %d behind it: %s", damage.Pos, damage.Reason)
		damage.Pos, damage.Offset = r.sure.pos, r.sure.least
	}
	if !ok || do == failAtDamage || r.sure.pos == r.first {
		return err
	}
	r.next = r.sure
	if r.check && !r.s.cfg.ReadOnly {
		r.s.checked.add(r.first, r.next.pos)
	}
	return nil
}

// readAll reads all whole batches that there is room for, and makes room for the first one, if that
// does not reach behind limit. next is the place behind them then.
func (r *batchReader) readAll() error {
	var h record.Batch
	if err := r.readTo(firstRead); err != nil {
		return err
	}
	for {
		n := r.offset()
		if r.have-n < record.HeaderSize && n > 0 {
			if r.room()-n < record.HeaderSize {
				return r.noteChecked(false)
			}
			if err := r.readTo(n + r.fitting(h.Size(), n)); err != nil {
				return err
			}
		}
		if err := r.s.parseInto(&h, r.dst[r.start+n:r.start+r.have], r.next, r.at); err != nil {
			return err
		}
		r.sure = r.next // a batch follows that begins where the last one ends, or above
		if size := h.Size(); n+size > r.have {
			if n+size > r.room() {
				if n > 0 || r.first+int64(size) > r.limit {
					return r.noteChecked(true)
				}
				r.makeRoom(size)
			}
			if err := r.readTo(n + r.fitting(size, n)); err != nil {
				return err
			}
			continue // parse again: h must have the whole batch
		}
		if r.check {
			if err := r.s.verify(&h, r.next); err != nil {
				return err
			}
		}
		contiguous := h.BaseOffset == r.next.least
		if r.next = (place{r.next.pos + int64(h.Size()), h.NextOffset()}); contiguous {
			r.sure = r.next
		}
	}
}

// fitting returns the bytes of as many batches of the given size as there is room for behind n, but
// at least one, and of the header of another.
func (r *batchReader) fitting(size, n int) int {
	return max((r.room()-n)/size, 1)*size + record.HeaderSize
}

// readTo continues to read until n bytes were read, the room is full, or the file ends. It returns
// an error if it reads nothing.
func (r *batchReader) readTo(n int) error {
	n = min(n, r.room())
	read, err := r.s.readSome(r.f, r.dst[r.start+r.have:r.start+n], place{r.first + int64(r.have), r.next.least})
	if r.have += read; read > 0 && errors.Is(err, ErrCorrupt) {
		return nil // the batches before the end may be whole
	}
	return err
}

// makeRoom makes room for n bytes altogether.
func (r *batchReader) makeRoom(n int) {
	r.dst = uncleared.Grow(r.dst[:r.start+r.have], n-r.have)[:r.start+n]
}

// noteChecked records that the batches up to next were checked. looked is set if the header behind
// them was checked too.
func (r *batchReader) noteChecked(looked bool) error {
	if !r.check || r.next.pos == r.first {
		return nil
	}
	if !looked && r.next.pos < r.at.size { // a base offset that is too high shows at the next batch
		if _, err := r.s.headerAt(r.f, r.next, r.at); err != nil {
			return err
		}
	}
	if !r.s.cfg.ReadOnly {
		r.s.checked.add(r.first, r.next.pos)
	}
	return nil
}
