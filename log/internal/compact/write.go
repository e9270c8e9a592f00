package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// compactBufferBytes is the number of bytes collected before they are written.
const compactBufferBytes = 1 << 20

// A compactWriter is the second half of a compaction: it rewrites groups of segments.
type compactWriter struct {
	*Pass
	keys *offsetMap
	txns *txnFilter
	// upper is firstUncleanable. The batch that ends there is kept, if only as a header, so that
	// no offset before it is assigned again.
	upper int64
	rep   *Report

	out    *segment.Segment // of the current group
	purged int64            // of the current group, see Result.Purged
	buf    []byte
	infos  []segment.BatchInfo
	left   int64 // bytes of the current group that have not been read yet
}

// maxBytes returns the maximum size of a result, whose positions have to fit the index.
func (c *Pass) maxBytes() int64 {
	if c.room > 0 {
		return c.room
	}
	return math.MaxInt32
}

func filePath(dir string, base int64, suffix string) string {
	return filepath.Join(dir, segment.FileName(base, suffix))
}

// group writes one group to .cleaned files and replaces the group by the result.
func (w *compactWriter) group(ctx context.Context, group []*segment.Segment) error {
	r, err := w.clean(ctx, group)
	if err != nil {
		return err
	}
	if err := w.Replace(r); err != nil {
		return errors.Join(err, r.discard())
	}
	for _, s := range group {
		w.rep.BytesBefore += s.Size()
	}
	w.rep.BytesAfter += r.Size
	w.rep.SegmentsBefore += len(group)
	w.rep.SegmentsAfter++
	return nil
}

// clean writes the remaining records of a group to .cleaned files. They are on stable storage when
// it returns, and removed if it fails.
func (w *compactWriter) clean(ctx context.Context, group []*segment.Segment) (*Result, error) {
	base, last := group[0].Base(), group[len(group)-1]
	info, err := w.FS.Stat(last.Path())
	if err != nil {
		return nil, err
	}
	if err := removeFiles(w.FS, w.Dir, base, cleanedSuffix); err != nil {
		return nil, err
	}
	cfg := w.Segment
	cfg.FS, cfg.Files, cfg.ReadOnly = Suffixed(w.FS, cleanedSuffix), nil, false
	if w.out, err = segment.Create(w.Dir, base, cfg); err != nil {
		return nil, err
	}
	w.purged = 0
	err = w.fill(ctx, group)
	r := &Result{Base: base, NextOffset: w.out.NextOffset(), Size: w.out.Size(), Sources: group, Purged: w.purged, pass: w.Pass}
	err = errors.Join(err, w.out.Close())
	if err == nil {
		err = w.FS.Chtimes(filePath(w.Dir, base, segment.LogSuffix+cleanedSuffix), info.ModTime())
	}
	if err == nil {
		err = w.FS.SyncDir(w.Dir) // before the manifest names the result
	}
	if err != nil {
		return nil, errors.Join(err, r.discard())
	}
	return r, nil
}

// fill writes the remaining records of a group to w.out, and seals it.
func (w *compactWriter) fill(ctx context.Context, group []*segment.Segment) error {
	w.left = 0
	for _, s := range group {
		w.left += s.Size()
	}
	for _, s := range group {
		if err := w.segmentOf(ctx, s); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.out.Seal(); err != nil {
		return err
	}
	// Seal does not sync the transaction index, since recovery rebuilds it. A result is not
	// recovered.
	return syncFile(w.FS, filePath(w.Dir, w.out.Base(), segment.TxnIndexSuffix)+cleanedSuffix)
}

// segmentOf adds the remaining records of s.
func (w *compactWriter) segmentOf(ctx context.Context, s *segment.Segment) error {
	w.addAborted(w.txns, s.Base(), w.Pass.upper(s))
	for b, err := range s.Batches(s.Base()) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.batch(b); err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset, err)
		}
	}
	return nil
}

// batch adds the remaining records of b.
func (w *compactWriter) batch(b *record.Batch) error {
	discard, err := w.txns.discard(b)
	if err != nil {
		return err
	}
	w.left -= int64(b.Size())
	expired := b.HasDeleteHorizon() && b.BaseTimestamp <= w.Now && b.NextOffset() <= w.PurgeBelow
	o := record.FilterOptions{
		DeleteHorizonMs: w.Now + w.Limits.DeleteRetention,
		FinishedMarker:  discard && b.IsControl(),
		KeepEmpty:       w.isLastOfProducer(b) || b.NextOffset() == w.upper,
		MaxInflated:     math.MaxInt32, // its size was accepted once
	}
	keep := func(r *record.Record) bool { return w.keepRecord(r, expired) }
	switch {
	case discard && (!b.IsControl() || expired):
		keep = func(*record.Record) bool { return false }
		if b.IsControl() && b.RecordCount > 0 {
			w.purged = max(w.purged, b.NextOffset())
		}
	case b.IsControl():
		keep = func(*record.Record) bool { return true }
	}
	start := len(w.buf)
	out, kept, err := record.Filter(w.buf, b, o, keep)
	if err != nil {
		return err
	}
	if w.out.Size()+int64(len(out))+w.left > w.maxBytes() {
		// A delete horizon makes timestamps longer. Without it the batch is not larger than it
		// was, so that a nearly full segment is compacted, too. Its tombstones get their horizon
		// from a later pass, when other records have been removed.
		o.DeleteHorizonMs = 0
		if out, kept, err = record.Filter(w.buf[:start], b, o, keep); err != nil {
			return err
		}
	}
	w.rep.RecordsBefore += int64(b.RecordCount)
	w.rep.RecordsAfter += int64(kept)
	w.buf = out
	if len(out) == start {
		return nil
	}
	h, err := record.ParseHeader(out[start:])
	if err != nil {
		return err
	}
	w.infos = append(w.infos, segment.InfoOf(&h))
	if len(w.buf) >= compactBufferBytes {
		return w.flush()
	}
	return nil
}

// keepRecord reports whether to keep a record with data. expired means that the tombstones of its
// batch may be removed.
func (w *compactWriter) keepRecord(r *record.Record, expired bool) bool {
	switch {
	case r.Offset > w.keys.latest:
		return true
	case r.Key == nil: // cannot be compacted, and should not be in such a log
		return false
	}
	newest := r.Offset >= w.keys.get(r.Key)
	if newest && expired && r.Value == nil {
		w.purged = max(w.purged, r.Offset+1)
		return false
	}
	return newest
}

// isLastOfProducer reports whether b is the last append of a live producer.
func (w *compactWriter) isLastOfProducer(b *record.Batch) bool {
	if w.LastOf == nil || !b.HasProducerID() {
		return false
	}
	last, ok := w.LastOf(b.ProducerID)
	switch {
	case !ok:
		return false
	case last.Offset >= 0:
		return b.LastOffset() == last.Offset
	}
	return b.IsControl() && b.ProducerEpoch == last.Epoch
}

// keepAborted writes an entry of the transaction index that is still needed.
func (w *compactWriter) keepAborted(txn segment.AbortedTxn) error { return w.out.AppendAborted(txn) }

// syncFile syncs a file if it exists.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (w *compactWriter) flush() error {
	if len(w.infos) == 0 {
		return nil
	}
	if w.out.Size()+int64(len(w.buf)) > w.maxBytes() {
		return errors.New("the compacted segment would pass 2 GiB")
	}
	err := w.out.Append([][]byte{w.buf}, w.infos)
	w.buf, w.infos = w.buf[:0], w.infos[:0]
	return err
}
