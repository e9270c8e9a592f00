package log

import (
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// gather makes r.bufs hold the bytes of r.in, with offsets and epochs set: in copies, unless the
// bytes are the log's own.
func (r *round) gather() {
	if a := r.in[0]; len(r.in) == 1 && a.own {
		a.stamp(a.Batch)
		r.bufs, r.infos = append(r.bufs[:0], a.Batch), append(r.infos[:0], a.info())
		return
	}
	copied := 0
	for _, a := range r.in {
		copied += min(len(a.Batch), copyBytes)
	}
	if cap(r.buf) < copied {
		r.buf = make([]byte, 0, 2*copied)
	}
	buf, from := r.buf[:0], 0
	r.bufs, r.infos = r.bufs[:0], r.infos[:0]
	for _, a := range r.in {
		r.infos = append(r.infos, a.info())
		large := len(a.Batch) > copyBytes
		if large && (a.own || a.KeepOffsets) {
			if from < len(buf) {
				r.bufs = append(r.bufs, buf[from:])
				from = len(buf)
			}
			a.stamp(a.Batch)
			r.bufs = append(r.bufs, a.Batch)
			continue
		}
		at := len(buf)
		if large {
			buf = append(buf, a.Batch[:patchedBytes]...)
		} else {
			buf = append(buf, a.Batch...)
		}
		a.stamp(buf[at:])
		if large {
			r.bufs = append(r.bufs, buf[from:], a.Batch[patchedBytes:])
			from = len(buf)
		}
	}
	if from < len(buf) {
		r.bufs = append(r.bufs, buf[from:])
	}
	r.buf = buf[:0]
}

// info returns a in the form that the segment takes.
func (a *Append) info() segment.BatchInfo {
	return segment.BatchInfo{Size: len(a.Batch), BaseOffset: a.BaseOffset, LastOffset: a.LastOffset, MaxTimestamp: a.Info.MaxTimestamp}
}

// stamp sets the fields that the CRC does not cover.
func (a *Append) stamp(p []byte) {
	if !a.KeepOffsets {
		record.SetBaseOffset(p, a.BaseOffset)
		record.SetLeaderEpoch(p, a.epoch)
	}
}
