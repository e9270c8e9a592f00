package explore

import (
	"math"
	"slices"
)

// A slot is the record that the history expects at an offset.
type slot struct {
	rec
	base     int64 // first and last offset of its batch
	last     int64
	must     bool // it was confirmed to be on stable storage
	shadowed bool // a later record has its key, so compaction may have removed it
}

// An expectation is the content a log must have at a moment, derived from the facts up to then. A
// fact that was not yet sure at that moment may or may not have come true.
type expectation struct {
	killed  bool             // only the process died
	slots   map[int64]*slot  // expected records, by offset
	pending map[int64]rec    // submitted records with an unknown fate, by id
	gone    map[int64]string // why an id must not be found, by id
	low     int64            // smallest start offset
	high    int64            // largest start offset; math.MaxInt64 means the end offset
	end     int64            // smallest end offset while no truncation is in progress
	// offset from which a truncation in progress may remove records; math.MaxInt64 means none
	cut int64
	// cut before the last truncation began, restored if that one cuts nothing. It may belong to an
	// earlier truncation that failed and that the next open completes.
	cutWas   int64
	cleaning bool
	removing bool // Remove was called: the log may be deleted
	removed  bool // Remove returned: the log is deleted
	// expectation of a log whose removal failed and left no files: a power cut may restore it; nil
	// if there is none
	before  *expectation
	epoch   int64 // newest leader epoch and the offset where it begins; -1 means none
	epochAt int64
	doubt   int64 // offset of a DeleteRecords that failed or has not returned; 0 means none
	floor   int64 // smaller ids that are in no slot were lost in an earlier crash
}

const none = math.MaxInt64

func newExpectation(killed bool) *expectation {
	e := &expectation{killed: killed}
	e.reset()
	return e
}

// reset makes e the expectation of an empty log. Ids that must not be found are kept.
func (e *expectation) reset() {
	gone := e.gone
	if gone == nil {
		gone = make(map[int64]string)
	}
	*e = expectation{killed: e.killed, floor: e.floor, slots: make(map[int64]*slot), pending: make(map[int64]rec), gone: gone, cut: none, cutWas: none, epoch: -1, epochAt: -1}
}

// expect derives the content that log must have after a crash. The first sure facts had come true
// before the crash. durable is the durable offset that the log had reported.
func expect(facts []fact, sure, log int, durable int64, killed bool) *expectation {
	e := newExpectation(killed)
	stable := durable
	var end int64 // end offset of the written records
	for i := range facts {
		f := &facts[i]
		if f.log != log {
			continue
		}
		if i >= sure && f.kind.confirms() {
			continue
		}
		switch f.kind {
		case reopened:
			e.reset()
			e.reopen(f)
			stable, end = 0, f.end
		case synced:
			stable = max(stable, f.offset)
			if e.end = max(e.end, f.offset); f.offset > 0 {
				e.before = nil
			}
		case written, acked:
			if e.cut <= f.offset { // a cut from here on has removed synced records
				stable = min(stable, f.offset)
			}
			e.append(f)
			end = f.offset + f.n
			if f.kind == acked {
				e.end, e.before = max(e.end, f.offset+f.n), nil
			}
		case truncated:
			e.truncate(f.offset)
			stable, end = min(stable, f.offset), f.offset
		case restarted:
			e.restart(f.offset)
			stable, end = f.offset, f.offset
		case removed:
			e.forgetAll("removed")
			e.reset()
			e.removed = true
			stable, end = 0, 0
		case vanished:
			e.settle(stable, end)
			old := *e
			e.reset()
			e.before = &old
			stable, end = 0, 0
		default:
			e.note(f)
		}
	}
	e.settle(max(stable, durable), end)
	return e
}

// confirms reports whether a fact of this kind holds only once its call has returned.
func (k factKind) confirms() bool {
	switch k {
	case submitted, deleting, cleaning, truncating, restarting, removing, backing:
		return false
	}
	return true
}

// note applies a fact that moves no records.
func (e *expectation) note(f *fact) {
	switch f.kind {
	case submitted:
		e.removed = false
		for _, r := range f.recs {
			e.pending[r.id] = r
		}
		if e.cleaning {
			e.shadow()
		}
	case refused:
		for id := f.id; id < f.id+f.n; id++ {
			if e.killed || f.durable {
				e.gone[id] = "refused"
				delete(e.pending, id)
			}
		}
	case deleting:
		e.high, e.doubt = max(e.high, f.offset), max(e.doubt, f.offset)
	case deleted:
		e.low = max(e.low, f.offset)
		if e.doubt == f.offset {
			e.doubt = 0
		}
	case cleaning:
		e.high = max(e.high, f.offset)
		if f.shadows {
			e.cleaning = true
			e.shadow()
		}
	case cleaned:
		e.high, e.low = max(f.offset, e.doubt, e.low), max(e.low, f.offset)
		e.cleaning = false
	case cleanFailed:
		e.cleaning = false
	case truncating:
		e.cut, e.cutWas = min(e.cut, e.baseOf(f.offset)), e.cut
	case unchanged:
		e.cut = e.cutWas
	case restarting:
		e.cut = 0
		e.high, e.doubt = max(e.high, f.offset), max(e.doubt, f.offset)
	case removing:
		e.removing = true
	case epoch:
		e.epoch, e.epochAt = f.id, f.offset
	}
}

// append adds the records of f at the offsets that the log confirmed.
func (e *expectation) append(f *fact) {
	for o, s := range e.slots {
		if o >= f.offset { // a truncation that was not confirmed has taken place
			e.gone[s.id] = "cut off"
			delete(e.slots, o)
		}
	}
	if e.cut <= f.offset {
		e.end, e.low = min(e.end, f.offset), min(e.low, f.offset)
		if e.epochAt >= e.cut {
			e.epoch = -1
		}
	}
	e.cut = none
	for i := range f.n {
		r, ok := e.pending[f.id+i]
		if !ok {
			continue
		}
		delete(e.pending, r.id)
		e.slots[f.offset+i] = &slot{rec: r, base: f.offset, last: f.offset + f.n - 1, must: f.kind == acked}
	}
	if e.cleaning {
		e.shadow()
	}
}

// shadow marks the records that a compaction may remove: all records of a key except the last.
func (e *expectation) shadow() {
	last := make(map[string]int64)
	for o, s := range e.slots {
		last[keyOf(s.id)] = max(last[keyOf(s.id)], o)
	}
	for _, r := range e.pending {
		last[keyOf(r.id)] = none
	}
	for o, s := range e.slots {
		if last[keyOf(s.id)] > o {
			s.shadowed = true
		}
	}
}

// baseOf returns the first offset of the batch that contains offset, since batches are cut off as
// a whole. Compaction may have removed the record at offset and kept others of its batch.
func (e *expectation) baseOf(offset int64) int64 {
	for _, s := range e.slots {
		if s.base <= offset && offset <= s.last {
			return s.base
		}
	}
	return offset
}

func (e *expectation) truncate(end int64) {
	for o, s := range e.slots {
		if o >= end {
			e.gone[s.id] = "truncated"
			delete(e.slots, o)
		}
	}
	e.cut, e.end, e.low = none, min(e.end, end), min(e.low, end)
	if e.epochAt >= end {
		e.epoch = -1
	}
}

func (e *expectation) forgetAll(why string) {
	for _, s := range e.slots {
		e.gone[s.id] = why
	}
	for id := range e.pending {
		e.gone[id] = why
	}
}

func (e *expectation) restart(start int64) {
	e.forgetAll("removed with everything")
	e.reset()
	e.low, e.high, e.end = start, start, start
}

// reopen starts from the content that was found after a crash.
func (e *expectation) reopen(f *fact) {
	e.low, e.high, e.floor = f.offset, f.offset, f.at
	for i, r := range f.recs {
		e.slots[f.offsets[i]] = &slot{rec: r, base: f.bases[i], last: f.lasts[i]}
	}
	if f.durable { // only a truncation moves the end back
		e.end = f.end
	}
	if f.id >= 0 {
		e.epoch, e.epochAt = f.id, f.n
	}
}

// settle marks the records that must be found, from the stable offset and the end offset.
func (e *expectation) settle(stable, end int64) {
	if e.killed {
		e.end = max(e.end, end)
	}
	for o, s := range e.slots {
		s.must = (s.must || e.killed || o < stable) && o < e.cut
	}
	if !e.killed && e.cut == none {
		e.end = max(e.end, min(stable, end))
	}
	if e.cut != none {
		e.end = 0
	}
	if e.epochAt >= e.cut {
		e.epoch = -1
	}
	if e.cut == 0 {
		e.low = min(e.low, e.doubt)
	}
}

// offsets returns the offsets that have a slot, ascending.
func (e *expectation) offsets() []int64 {
	var all []int64
	for o := range e.slots {
		all = append(all, o)
	}
	slices.Sort(all)
	return all
}
