package verify

import (
	"fmt"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/record"
)

func segmentName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// A seg is a segment being checked. Its indexes are read before its .log file: an active segment
// only grows meanwhile.
type seg struct {
	*part
	base  int64
	name  string // of the .log file
	last  bool   // the last segment of the log
	limit int64  // exclusive upper bound of its offsets

	offsets offsetIndex
	times   timeIndex
	aborts  abortIndex
	damages []kafkafile.Damage
	maxTime int64

	unreported *unreported // the damage before the next batch; nil if there is none
}

func (p *part) segment(base int64, last bool) error {
	s := &seg{part: p, base: base, name: p.path(p.segmentFile(base, ".log")), last: last, limit: base + maxRelative + 1, maxTime: -1}
	p.n.Segments++
	for _, b := range p.segments {
		if b > base {
			s.limit = min(s.limit, b)
		}
	}
	s.readIndexes()
	f, size := p.open(s.name)
	if f == nil {
		p.gaps = true
		return nil
	}
	defer p.closing(s.name, f)
	if p.next > base {
		p.damage(s.name, -1, "begins at %d, and the segment before ends at %d", base, p.next)
	}
	if p.next >= 0 && p.next < base {
		s.gap(-1, base)
	}
	p.next = max(p.next, base)
	done := p.n.Bytes
	end, err := kafkafile.ScanLog(f, size, kafkafile.Visitor{
		Batch: func(pos int64, b *record.Batch) error {
			s.batch(pos, b)
			p.n.Bytes = done + pos + int64(b.Size())
			return p.step(s.name)
		},
		Damage: func(d kafkafile.Damage) error {
			s.damaged(d)
			return p.step(s.name)
		},
	})
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if err != nil {
		p.damage(s.name, end.Pos, "%v", err)
		p.gaps = true
	}
	lostEnd := s.reportLostEnd(size, end)
	if end.Zeros > 0 && !lostEnd && (!last || p.facts.clean) {
		p.note(s.name, "%d bytes of reserved space behind the last batch, where there should be none", end.Zeros)
	}
	p.n.Bytes = done + size
	s.indexesDone()
	return nil
}

// batch checks a batch with a valid CRC against the neighbouring batches, the epochs, the indexes
// and the open transactions.
func (s *seg) batch(pos int64, b *record.Batch) {
	s.n.Batches++
	s.reportLost(b.BaseOffset)
	switch {
	case b.BaseOffset < s.next:
		s.damage(s.name, pos, "offsets %d..%d, although %d comes next", b.BaseOffset, b.LastOffset(), s.next)
	case b.LastOffset() >= s.limit:
		s.damage(s.name, pos, "offsets %d..%d, although the segment ends below %d", b.BaseOffset, b.LastOffset(), s.limit)
	case b.BaseOffset > s.next:
		s.gap(pos, b.BaseOffset)
	}
	if b.LastOffset() < s.limit {
		s.next = b.NextOffset()
	}
	want := s.epochAt(b.BaseOffset)
	switch {
	case want >= 0 && b.LeaderEpoch != want:
		s.damage(s.name, pos, "leader epoch %d, where leader-epoch-checkpoint has %d", b.LeaderEpoch, want)
	case want < 0 && s.beforeEpochs(b):
		s.damage(s.name, pos, "leader epoch %d at %d, although it began at %d by leader-epoch-checkpoint", b.LeaderEpoch, b.BaseOffset, s.epochs[0].StartOffset)
	case want < 0 && b.LeaderEpoch < s.epoch:
		s.damage(s.name, pos, "leader epoch %d behind epoch %d", b.LeaderEpoch, s.epoch)
	}
	s.epoch = max(s.epoch, b.LeaderEpoch)
	s.records(pos, b)
	s.offsets.batch(s, pos, b)
	s.times.batch(s, b)
	s.maxTime = max(s.maxTime, b.MaxTimestamp)
	s.txn(pos, b)
}

// beforeEpochs reports whether b lies before the start of its own epoch. b is below all entries of
// leader-epoch-checkpoint. Batches below the start of the log do not count: the file has no entries
// for them.
func (s *seg) beforeEpochs(b *record.Batch) bool {
	start := s.facts.start
	if s.state != nil {
		start = s.state.StartOffset
	} else if !s.facts.clean {
		return false // the checkpoint of the start may be older
	}
	return len(s.epochs) > 0 && b.LeaderEpoch >= s.epochs[0].Epoch && b.BaseOffset >= start
}

// gap reports that no batch has the offsets from s.next to offset, unless compaction may have
// removed them. The active segment is never compacted, but a truncation can make a compacted
// segment the active one.
func (s *seg) gap(pos, offset int64) {
	written := s.last && s.state != nil && pos > 0
	if !s.part.gaps && (s.facts.compacted == no || s.facts.compacted == unknown && written) {
		s.damage(s.name, pos, "offsets %d..%d are missing", s.next, offset-1)
	}
	s.part.gaps = true
}

// records reads the records and checks them against the header.
func (s *seg) records(pos int64, b *record.Batch) {
	it, err := b.Records(0)
	if err != nil {
		s.damage(s.name, pos, "records: %v", err)
		return
	}
	last := b.BaseOffset - 1
	var r record.Record
	for {
		more, err := it.Next(&r)
		if err != nil {
			s.damage(s.name, pos, "records: %v", err)
			return
		}
		if !more {
			return
		}
		s.n.Records++
		if r.Offset <= last || r.Offset > b.LastOffset() {
			s.damage(s.name, pos, "a record of offset %d in the batch %d..%d, behind one of %d", r.Offset, b.BaseOffset, b.LastOffset(), last)
			return
		}
		last = r.Offset
	}
}

// damaged handles a range of bytes without a batch. It is a note if a crash can have left them at
// the end of the log, otherwise damage.
func (s *seg) damaged(d kafkafile.Damage) {
	torn := d.Last && s.last && !s.facts.clean && s.next >= s.facts.recoveryPoint
	if refused := s.plan.Refused; torn && (refused == nil || refused.Path != s.name) {
		s.note(s.name, "%d bytes at %d are an incomplete last batch, which the next open cuts (%s)", d.Size, d.Pos, d.Reason)
		s.damages = append(s.damages, d)
		return
	}
	s.takeDamage(d)
}

// inDamage reports whether the log is damaged at pos.
func (s *seg) inDamage(pos int64) bool {
	for _, d := range s.damages {
		if pos >= d.Pos && pos < d.Pos+d.Size {
			return true
		}
	}
	return false
}
