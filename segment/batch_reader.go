package segment

import (
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

	dst   []byte // what is read is appended to dst[:start]; its length is how far it may go
	start int
	first int64 // position of what is in dst at start
	have  int   // bytes read
	next  place // behind the last batch that was read and checked
}

// offset returns where the next batch begins in what was read.
func (r *batchReader) offset() int { return int(r.next.pos - r.first) }

// room returns how many bytes may be read altogether.
func (r *batchReader) room() int { return len(r.dst) - r.start }

// run reads all whole batches that there is room for, and makes room for the first one, if that
// does not reach behind limit. next is the place behind them then.
func (r *batchReader) run() error {
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
			continue // h is to have all of the batch
		}
		if r.check {
			if err := r.s.verify(&h, r.next); err != nil {
				return err
			}
		}
		r.next = place{r.next.pos + int64(h.Size()), h.NextOffset()}
	}
}

// fitting returns the bytes of as many batches of the given size as there is room for behind n, but
// at least one, and of the header of another.
func (r *batchReader) fitting(size, n int) int {
	return max((r.room()-n)/size, 1)*size + record.HeaderSize
}

// readTo reads on until n bytes were read, or as many as there is room for.
func (r *batchReader) readTo(n int) error {
	n = min(n, r.room())
	err := r.s.readFull(r.f, r.dst[r.start+r.have:r.start+n], r.first+int64(r.have))
	r.have = n
	return err
}

// makeRoom makes room for n bytes altogether.
func (r *batchReader) makeRoom(n int) {
	r.dst = uncleared.Grow(r.dst[:r.start+r.have], n-r.have)[:r.start+n]
}

// noteChecked notes that the batches up to next were checked. looked says that the header behind
// them was, too.
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
