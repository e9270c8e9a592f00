package metalog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// errNoBeginning means that the log starts after offset 0 without a snapshot.
var errNoBeginning = errors.New("the log starts after its beginning, and has no snapshot of the earlier records")

// A replaying applies a copy of the metadata log to an image. Records between BeginTransaction and
// EndTransaction wait until all of them have been read.
type replaying struct {
	img   *image.Image
	start int64 // log start offset

	sets controller.Sets     // see Log
	recs []metarecord.Record // records of the current batch that were applied

	size, snapshot int64 // bytes of batches, and of the last snapshot

	since int64 // changes after this version are collected in news
	news  []Change

	open    bool // a transaction has begun and not ended
	began   int64
	waiting []metarecord.Record
	bytes   int64 // of the batches since the transaction began
}

// replay applies the whole log to img, and returns the changes after the version since. A log that
// does not begin at offset 0 begins with a snapshot. Errors about the content of the log are made
// by Place.Blame; all others come from the disk.
func (m *Log) replay(l *Copy, img *image.Image, since int64) ([]Change, error) {
	dir := l.place.Dir()
	r := &replaying{img: img, start: l.StartOffset(), since: since}
	for b, err := range l.Batches(r.start) {
		if err != nil {
			return nil, l.place.explain(dir, err)
		}
		if err := r.batch(b); err != nil {
			reason := ErrDamaged
			if errors.As(err, new(*metarecord.UnknownError)) || errors.Is(err, image.ErrLaterRecord) {
				reason = ErrNewerFormat
			}
			return nil, l.place.Blame(dir, reason, err)
		}
	}
	if r.start > 0 && l.EndOffset() == r.start {
		return nil, l.place.Blame(dir, ErrDamaged, fmt.Errorf("metadata log is empty, and starts at offset %d", r.start))
	}
	if r.open && r.start > 0 && r.began == r.start {
		return nil, l.place.Blame(dir, ErrDamaged, errors.New("metadata log begins with a snapshot that does not end"))
	}
	m.sets = r.sets
	m.size, m.snapshot, m.end = r.size, r.snapshot, l.EndOffset()
	if r.open {
		m.end = r.began
		m.size -= r.bytes
	}
	img.Publish(m.end)
	return r.news, nil
}

// batch applies one batch.
func (r *replaying) batch(b *record.Batch) error {
	r.size += int64(b.Size())
	r.bytes += int64(b.Size())
	if b.IsControl() {
		return nil
	}
	it, err := b.Records(0)
	if err != nil {
		return fmt.Errorf("metadata log at offset %d: %w", b.BaseOffset, err)
	}
	var rec record.Record
	for {
		switch more, err := it.Next(&rec); {
		case err != nil:
			return fmt.Errorf("metadata log at offset %d: %w", b.BaseOffset, err)
		case !more:
			r.noteChange(b)
			return nil
		}
		if err := r.record(&rec, int64(b.Size())); err != nil {
			return fmt.Errorf("metadata log at offset %d: %w", rec.Offset, err)
		}
	}
}

// record applies one record of a batch with size bytes.
func (r *replaying) record(raw *record.Record, size int64) error {
	rec, err := metarecord.Parse(raw.Value)
	if err != nil {
		return err
	}
	switch rec := rec.(type) {
	case *metarecord.BeginTransaction:
		if r.open {
			return errors.New("a transaction begins inside of another")
		}
		r.open, r.began, r.bytes = true, raw.Offset, size
		return nil
	case *metarecord.EndTransaction, *metarecord.AbortTransaction:
		return r.end(rec)
	}
	if raw.Offset == r.start && r.start > 0 && !image.IsSnapshot(rec) {
		return errNoBeginning
	}
	if r.open {
		r.waiting = append(r.waiting, rec)
		return nil
	}
	if image.IsSnapshot(rec) {
		r.size, r.snapshot = size, size
	}
	return r.apply(rec)
}

func (r *replaying) apply(rec metarecord.Record) error {
	r.recs = append(r.recs, rec)
	return r.img.Apply(rec)
}

// A Change is a change in the log: its records, and the version of the metadata after it.
type Change struct {
	Records []metarecord.Record
	Version int64
}

// noteChange records a change that b has completed, and the set of copies that follows from it. It
// does nothing if a transaction is still open.
func (r *replaying) noteChange(b *record.Batch) {
	if len(r.recs) == 0 {
		return
	}
	if b.BaseOffset >= r.since {
		r.news = append(r.news, Change{slices.Clone(r.recs), b.LastOffset() + 1})
	}
	if !changesSet(r.recs) {
		r.sets = r.sets.Committed()
	}
	r.sets, r.recs = r.sets.Named(r.img.Serving()), r.recs[:0]
}

// end applies the waiting records of a transaction, or drops them if it was aborted.
func (r *replaying) end(rec metarecord.Record) error {
	if !r.open {
		return errors.New("the end of a transaction that has not begun")
	}
	waiting := r.waiting
	r.open, r.waiting = false, nil
	if _, aborted := rec.(*metarecord.AbortTransaction); aborted {
		return nil
	}
	snapshot := len(waiting) > 0 && image.IsSnapshot(waiting[0])
	if r.began == r.start && r.start > 0 && !snapshot {
		return errNoBeginning
	}
	if snapshot {
		r.size, r.snapshot = r.bytes, r.bytes
	}
	for _, rec := range waiting {
		if err := r.apply(rec); err != nil {
			return err
		}
	}
	return nil
}

// Image reads the whole copy and returns its image. Errors of the directory are made by
// Place.Blame. A joining copy is trusted to agree with the others as far as its epochs show it.
func (m *Copy) Image() (*image.Image, error) {
	img := image.New()
	_, err := (&Log{}).replay(m, img, math.MaxInt64)
	return img, err
}
