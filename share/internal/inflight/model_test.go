package inflight

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A known is the model's state of one offset.
type known struct {
	state    State
	count    int16
	member   string
	deadline time.Time
	pending  bool // acquired, and the delivery has not begun
}

// ended returns how many deliveries of the offset have ended.
func (k *known) ended() int16 {
	if k.state == Acquired && !k.pending {
		return k.count - 1
	}
	return k.count
}

// A world is a share-partition beside a model that keeps every offset separately. It also has a
// log with batches of all kinds, and the stored state.
type world struct {
	t    testing.TB
	seed uint64
	rng  *rand.Rand
	cfg  Config
	p    *Partition
	now  time.Time
	ops  []string

	log      []Offsets // batches
	missing  map[int64]bool
	logStart int64
	logEnd   int64

	start, end  int64
	offsets     map[int64]*known // in flight
	stored      map[int64]known  // durable state, by offset
	storedStart int64
	lost        map[int64]known     // records that were acquired when the log deleted them
	doubts      map[string][]remark // acknowledgements with an unknown outcome, by member
	// all earlier doubts, and acknowledgements of records that the log deleted
	past map[string][]remark
	// highest former limit of deliveries; a lower one counts from the next release on
	highest  int
	accepted map[int64]bool // durably accepted
	given    map[int64]int  // number of times that a record was handed out
}

// A remark is a member's acknowledgement of an offset, which it may repeat until the deadline.
type remark struct {
	offset   int64
	said     AckType
	deadline time.Time
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0), missing: map[int64]bool{}, offsets: map[int64]*known{},
		stored: map[int64]known{}, lost: map[int64]known{}, doubts: map[string][]remark{}, past: map[string][]remark{}, accepted: map[int64]bool{}, given: map[int64]int{}}
	w.cfg = Config{LockDuration: 10 * time.Second, MaxDeliveryCount: 1 + w.rng.IntN(6), MaxInFlight: int64(1 + w.rng.IntN(40))}
	first := int64(w.rng.IntN(5))
	w.start, w.end, w.storedStart, w.logEnd = first, first, first, first
	w.p = New(&w.cfg, Snapshot{Start: first})
	return w
}

func (w *world) note(format string, args ...any) { w.ops = append(w.ops, fmt.Sprintf(format, args...)) }

func (w *world) require(ok bool, format string, args ...any) {
	if !ok {
		w.t.Helper()
		w.t.Logf("seed %d", w.seed)
		for _, op := range w.ops[max(0, len(w.ops)-40):] {
			w.t.Log(op)
		}
		w.t.Fatalf(format, args...)
	}
}

// append writes a batch, at times behind a gap, and at times with missing records.
func (w *world) append() {
	if w.rng.IntN(4) == 0 {
		w.logEnd += int64(w.rng.IntN(4)) // a compacted range
	}
	b := Offsets{First: w.logEnd, Last: w.logEnd + int64(w.rng.IntN(9)), Skip: w.rng.IntN(7) == 0}
	w.logEnd = b.Last + 1
	w.log = append(w.log, b)
	for o := b.First; o <= b.Last; o++ {
		w.missing[o] = w.rng.IntN(12) == 0
	}
	w.note("append %+v", b)
}

// fetch acquires records for a member.
func (w *world) fetch(member string, limit Limit) (got []Delivery) {
	w.tick()
	from, ok := w.p.Next()
	w.requireNext(from, ok)
	if !ok {
		return nil
	}
	f, n := Fetched{From: from}, 1+w.rng.IntN(4)
	for _, b := range w.log {
		if b.Last >= from && len(f.Batches) < n {
			f.Batches = append(f.Batches, b)
		}
	}
	got = w.p.Acquire(w.now, member, f, limit)
	w.note("fetch %s %+v of %+v: %+v", member, limit, f, got)
	w.handed(member, f, limit, got)
	return got
}

func (w *world) requireNext(from int64, ok bool) {
	want, any := w.end, w.end-w.start < w.cfg.MaxInFlight
	for o := w.start; o < w.end; o++ {
		if w.offsets[o].state == Available {
			want, any = o, true
			break
		}
	}
	w.require(from == want && ok == any, "next is %d, %v, not %d, %v", from, ok, want, any)
}

// handed checks the acquired records, and updates the model. Records are acquired in order, and
// only if the model has them as available. Their number is the machine's choice, within its
// limits.
func (w *world) handed(member string, f Fetched, limit Limit, got []Delivery) {
	total, last := 0, int64(-1)
	fresh := map[int64]bool{}
	for _, d := range got {
		w.require(d.First > last, "out of order: %+v", got)
		for last = d.First; last <= d.Last; last++ {
			total++
			fresh[last] = true
			k := w.offsets[last]
			if k == nil {
				k = &known{}
			}
			w.require(k.state == Available, "offset %d is handed to %s and is %v, with %q", last, member, k.state, k.member)
			w.require(w.isRecord(last), "offset %d is no record", last)
			w.require(!w.accepted[last], "offset %d was accepted, and is handed out again", last)
			w.require(last < w.end || last < w.p.Start()+w.cfg.MaxInFlight, "offset %d is too far above %d", last, w.p.Start())
			w.require(d.Count == k.count+1, "delivery %d of offset %d, which had %d", d.Count, last, k.count)
			w.require(int(d.Count) <= max(w.cfg.MaxDeliveryCount, w.highest), "offset %d is delivered for the time %d", last, d.Count)
			w.given[last]++
		}
		last = d.Last
	}
	w.require(!limit.Exact || total <= limit.Records, "%d records for %+v", total, limit)
	stopped := false
	touched := func() bool { return total > 0 || w.p.End() > w.end || w.p.Start() > w.start }
	before := total == 0
	for _, b := range f.Batches {
		for o := max(b.First, f.From); o <= b.Last; o++ {
			if k := w.offsets[o]; !b.Skip && o >= w.start && (k == nil || k.state == Available) {
				w.require(!fresh[o] || !stopped, "offset %d is handed out, but not what is before it: %+v", o, got)
				stopped = stopped || !fresh[o]
			}
		}
	}
	if len(f.Batches) > 0 && before {
		w.require(touched() || w.changedBelow(f), "nothing is handed out of %+v", f)
	}
	w.follow(member, fresh, limit.BeginLater)
}

// changedBelow reports whether a record was archived because there is none to hand out.
func (w *world) changedBelow(f Fetched) bool {
	_, ok := w.p.Next()
	from, _ := w.p.Next()
	return !ok || from > f.From
}

// follow updates the model from the machine: fresh offsets are acquired, and newly archived ones
// have no record.
func (w *world) follow(member string, fresh map[int64]bool, pending bool) {
	now := map[int64]Batch{}
	for _, b := range w.p.All() {
		for o := b.First; o <= b.Last; o++ {
			now[o] = b
		}
	}
	for o := w.start; o < w.p.End(); o++ {
		k := w.offsets[o]
		if k == nil {
			k = &known{}
			w.offsets[o] = k
		}
		switch b, ok := now[o]; {
		case fresh[o]:
			*k = known{state: Acquired, count: k.count, member: member, deadline: w.now.Add(w.cfg.LockDuration), pending: pending}
			if !pending {
				k.count++
			}
		case k.state == Available && (!ok || b.State == Archived):
			w.require(!w.isRecord(o), "offset %d is a record, and was archived", o)
			k.state = Archived
		}
	}
	w.end = max(w.end, w.p.End())
	w.advance()
}

func (w *world) isRecord(o int64) bool {
	for _, b := range w.log {
		if b.First <= o && o <= b.Last {
			return !b.Skip && o >= w.logStart
		}
	}
	return false
}

func (w *world) advance() {
	for w.start < w.end && w.offsets[w.start].state.Terminal() {
		delete(w.offsets, w.start)
		w.start++
	}
}

func (w *world) giveBack(k *known) {
	pending := k.pending
	*k = known{state: Available, count: k.count}
	if !pending && int(k.count) >= w.cfg.MaxDeliveryCount {
		k.state = Archived
	}
}

func (w *world) tick() {
	w.p.Tick(w.now)
	for _, k := range w.offsets {
		if k.state == Acquired && !k.deadline.After(w.now) {
			w.giveBack(k)
		}
	}
	w.advance()
}

// acknowledge acknowledges records, of the member or of others.
func (w *world) acknowledge(member string, acks []Ack) {
	w.tick()
	want := w.verdict(member, acks)
	err := w.p.Acknowledge(w.now, member, acks)
	w.note("ack %s %+v: %v", member, acks, err)
	w.require(errors.Is(err, want), "%v, not %v", err, want)
	if err != nil {
		return
	}
	for _, a := range acks {
		for o := max(a.First, w.start); o <= a.Last; o++ {
			t := a.Types[0]
			if len(a.Types) > 1 {
				t = a.Types[o-a.First]
			}
			k := w.offsets[o]
			if k.state != Acquired || k.member != member {
				continue // a repetition
			}
			switch t {
			case Accept:
				*k = known{state: Acknowledged, count: k.count}
			case Gap, Reject:
				*k = known{state: Archived, count: k.count}
			case Release:
				w.giveBack(k)
			case Renew:
				k.deadline = w.now.Add(w.cfg.LockDuration)
			}
		}
	}
	w.advance()
	if w.rng.IntN(3) == 0 {
		w.note("in doubt")
		w.p.Doubt(w.now, member, acks)
		w.doubt(member, acks)
	}
}

// doubt notes that a member did not learn whether acks are stored.
func (w *world) doubt(member string, acks []Ack) {
	for _, a := range acks {
		for o := a.First; o <= a.Last; o++ {
			if t := a.typeOf(o); t != Renew {
				w.doubts[member] = append(w.doubts[member], remark{o, t, w.now.Add(w.cfg.LockDuration)})
				w.past[member] = append(w.past[member], remark{offset: o, said: t})
			}
		}
	}
}

// hasSaid reports whether a member may repeat an acknowledgement.
func (w *world) hasSaid(member string, o int64, t AckType) bool {
	return slices.ContainsFunc(w.doubts[member], func(r remark) bool { return r.offset == o && r.said == t && r.deadline.After(w.now) })
}

func (w *world) verdict(member string, acks []Ack) error {
	next := int64(math.MinInt64)
	for _, a := range acks {
		if a.First < 0 || a.Last < a.First || a.First < next || len(a.Types) != 1 && int64(len(a.Types)) != a.Last-a.First+1 {
			return ErrInvalidRequest
		}
		for _, t := range a.Types {
			if t < 0 || t > 4 {
				return ErrInvalidRequest
			}
		}
		next = a.Last + 1
	}
	for _, a := range acks {
		if a.Last >= w.end {
			return ErrInvalidState
		}
		for o := a.First; o < w.start && o <= a.Last; o++ {
			if k, ok := w.lost[o]; (!ok || k.member != member || !k.deadline.After(w.now)) && !w.hasSaid(member, o, a.typeOf(o)) {
				return ErrInvalidState
			}
		}
		for o := max(a.First, w.start); o <= a.Last; o++ {
			if k := w.offsets[o]; (k.state != Acquired || k.member != member) && !w.hasSaid(member, o, a.typeOf(o)) {
				return ErrInvalidState
			}
		}
	}
	return nil
}

// begin starts deliveries that were acquired with BeginLater, of the member or of others.
func (w *world) begin(member string) {
	w.tick()
	first := w.start - 2 + int64(w.rng.IntN(int(w.end-w.start)+4))
	for o := w.start; o < w.end && w.rng.IntN(4) > 0; o++ {
		if k := w.offsets[o]; k.pending && k.member == member {
			first = o
			break
		}
	}
	last := first + int64(w.rng.IntN(5)) - 1
	for w.rng.IntN(8) > 0 && last > first && (w.offsets[last] == nil || w.offsets[last].member != member) {
		last--
	}
	ok := last >= first
	for o := first; o <= last; o++ {
		k := w.offsets[o]
		ok = ok && k != nil && k.state == Acquired && k.member == member
	}
	err := w.p.Begin(w.now, member, first, last)
	w.note("begin %s %d to %d: %v", member, first, last, err)
	w.require(ok == (err == nil) && (ok || errors.Is(err, ErrInvalidState)), "%v", err)
	for o := first; ok && o <= last; o++ {
		k := w.offsets[o]
		if k.pending {
			k.count, k.pending = k.count+1, false
		}
		k.deadline = w.now.Add(w.cfg.LockDuration)
	}
}

func (w *world) leave(member string) {
	w.note("leave %s", member)
	w.tick()
	w.p.Leave(w.now, member)
	for _, k := range w.offsets {
		if k.state == Acquired && k.member == member {
			*k = known{state: Available, count: k.ended()}
		}
	}
	delete(w.doubts, member)
	maps.DeleteFunc(w.lost, func(_ int64, k known) bool { return k.member == member })
}

func (w *world) expire(member string) {
	w.note("expire %s", member)
	w.tick()
	w.p.Expire(w.now, member)
	for _, k := range w.offsets {
		if k.state == Acquired && k.member == member {
			w.giveBack(k)
		}
	}
	w.advance()
	delete(w.doubts, member)
	maps.DeleteFunc(w.lost, func(_ int64, k known) bool { return k.member == member })
}

func (w *world) deleteRecords() {
	w.logStart = min(w.logStart+int64(w.rng.IntN(12)), w.logEnd)
	w.note("log start %d", w.logStart)
	w.p.LogStart(w.logStart)
	if w.logStart > w.start {
		for ; w.start < w.logStart; w.start++ {
			if k := w.offsets[w.start]; k != nil && k.state == Acquired {
				w.lost[w.start] = *k
				w.past[k.member] = append(w.past[k.member], remark{offset: w.start, said: Accept})
			}
			delete(w.offsets, w.start)
		}
		w.end = max(w.end, w.start)
		w.advance()
	}
	for len(w.log) > 0 && w.log[0].Last < w.logStart {
		w.log = w.log[1:]
	}
}

// compact removes a batch from the log, whatever the state of its records.
func (w *world) compact() {
	if len(w.log) > 1 {
		i := w.rng.IntN(len(w.log) - 1)
		w.note("compact %+v", w.log[i])
		w.log = slices.Delete(w.log, i, i+1)
	}
}

// store applies a delta to the stored state.
func (w *world) store(d Delta) {
	w.storedStart = d.Start
	for _, b := range d.Batches {
		w.require(b.First >= d.Start, "batch %+v below %d", b, d.Start)
		for o := b.First; o <= b.Last; o++ {
			w.stored[o] = known{state: b.State, count: b.Count}
		}
	}
}

// fail does not store the delta, or stores it but reports a failure. Meanwhile other calls are
// made.
func (w *world) fail() {
	d, ok := w.p.Delta()
	w.note("delta %+v, %v", d, ok)
	if !ok {
		return
	}
	for range w.rng.IntN(3) {
		if member := string(rune('a' + w.rng.IntN(4))); w.rng.IntN(2) == 0 {
			w.acknowledge(member, w.randomAcks(member))
		} else {
			w.fetch(member, Limit{Records: 1 + w.rng.IntN(12), Exact: true})
		}
	}
	if w.rng.IntN(3) == 0 {
		w.store(d)
	}
	w.note("not stored")
	w.p.NotStored(d)
}

// flush stores the delta, and compares the stored state with the model.
func (w *world) flush() {
	d, ok := w.p.Delta()
	w.note("delta %+v, %v", d, ok)
	if ok {
		w.store(d)
	}
	w.require(w.storedStart == w.start, "start %d is stored, not %d", w.storedStart, w.start)
	complete := int32(0)
	for o := range w.stored {
		if o < w.start {
			delete(w.stored, o)
		}
	}
	for o, k := range w.offsets {
		want := known{state: k.state, count: k.count}
		if k.state == Acquired {
			want = known{state: Available, count: k.ended()}
		}
		if k.state.Terminal() {
			complete++
		}
		w.require(w.stored[o] == want, "offset %d is stored as %+v, not %+v", o, w.stored[o], want)
	}
	w.require(!ok || d.Complete == complete, "%d complete, not %d", d.Complete, complete)
	for o, k := range w.offsets {
		w.accepted[o] = w.accepted[o] || k.state == Acknowledged
	}
	_, again := w.p.Delta()
	w.require(!again, "a second delta")
}

// crash drops the state that is not stored.
func (w *world) crash() {
	w.note("crash")
	s := Snapshot{Start: w.storedStart}
	w.offsets, w.start, w.end = map[int64]*known{}, s.Start, s.Start
	clear(w.lost)
	clear(w.doubts)
	for o := range w.stored {
		w.end = max(w.end, o+1)
	}
	for o := w.start; o < w.end; o++ {
		k, ok := w.stored[o]
		w.offsets[o] = &known{state: k.state, count: k.count}
		if n := len(s.Batches); ok {
			if n > 0 && s.Batches[n-1].Last == o-1 && s.Batches[n-1].State == k.state && s.Batches[n-1].Count == k.count && w.rng.IntN(3) > 0 {
				s.Batches[n-1].Last = o
			} else {
				s.Batches = append(s.Batches, Batch{o, o, k.state, k.count})
			}
		}
	}
	w.p = New(&w.cfg, s)
	w.advance()
	w.p.LogStart(w.logStart)
	for ; w.start < w.logStart; w.start++ {
		delete(w.offsets, w.start)
	}
	w.end = max(w.end, w.start)
	w.advance()
}

// compare compares the machine with the model in all fields.
func (w *world) compare() {
	w.require(w.p.Start() == w.start && w.p.End() == w.end, "in flight %d to %d, not %d to %d", w.p.Start(), w.p.End(), w.start, w.end)
	at, n := w.start, int64(0)
	var first time.Time
	for i, b := range w.p.All() {
		w.require(b.First == at && b.Last >= b.First, "run %+v at %d", b, at)
		w.require(i == 0 || !w.p.runs[i-1].like(&w.p.runs[i]), "runs that are alike: %+v", w.p.All())
		for ; at <= b.Last; at++ {
			k := w.offsets[at]
			w.require(k.state == b.State && k.count == b.Count && k.member == w.p.runs[i].member && k.pending == w.p.runs[i].pending, "offset %d is %+v, not %+v", at, b, k)
			if k.state == Available {
				n++
			}
			if k.state == Acquired && (first.IsZero() || k.deadline.Before(first)) {
				first = k.deadline
			}
		}
	}
	w.require(at == w.end && n == w.p.available, "ends at %d, %d available", at, w.p.available)
	w.require(first.IsZero() || !w.p.Deadline().IsZero() && !w.p.Deadline().After(first), "deadline %v after %v", w.p.Deadline(), first)
	w.requireNext(w.p.Next())
}

func (w *world) randomAcks(member string) (acks []Ack) {
	at := w.start - int64(w.rng.IntN(3))
	if w.rng.IntN(4) == 0 {
		at = w.start - int64(w.rng.IntN(12)) // offsets that the log has deleted
	}
	for range 1 + w.rng.IntN(3) {
		a := Ack{First: at + int64(w.rng.IntN(6))}
		if w.rng.IntN(12) > 0 { // an offset that the member has
			for o := a.First; o < w.end; o++ {
				if k := w.offsets[o]; k != nil && k.member == member {
					a.First = o
					break
				}
			}
		}
		a.Last = a.First + int64(w.rng.IntN(5))
		for w.rng.IntN(12) > 0 && a.Last > a.First && (w.offsets[a.Last] == nil || w.offsets[a.Last].member != member) {
			a.Last--
		}
		a.Types = []AckType{AckType(w.rng.IntN(5))}
		if said := w.past[member]; len(said) > 0 && w.rng.IntN(3) == 0 { // a repetition
			r := said[max(0, len(said)-1-w.rng.IntN(9))]
			a = Ack{First: r.offset, Last: r.offset, Types: []AckType{r.said}}
			for w.rng.IntN(5) > 0 && w.hasSaid(member, a.Last+1, r.said) {
				a.Last++
			}
		}
		if w.rng.IntN(2) == 0 {
			for len(a.Types) < int(a.Last-a.First+1) {
				a.Types = append(a.Types, AckType(w.rng.IntN(5)))
			}
		}
		switch w.rng.IntN(40) {
		case 0:
			a.Types[0] = 5
		case 1:
			a.Types = append(a.Types, Accept, Accept)
		case 2:
			a.Last = a.First - 1
		}
		acks = append(acks, a)
		at = a.Last + int64(w.rng.IntN(3)) // overlaps at times
	}
	return acks
}

func (w *world) step() {
	member := string(rune('a' + w.rng.IntN(4)))
	switch n := w.rng.IntN(100); {
	case n < 20:
		w.append()
	case n < 50:
		w.fetch(member, Limit{Records: 1 + w.rng.IntN(12), Exact: w.rng.IntN(2) == 0, BeginLater: w.rng.IntN(3) == 0})
	case n < 57:
		w.begin(member)
	case n < 75:
		w.acknowledge(member, w.randomAcks(member))
	case n < 80:
		w.flush()
	case n < 83:
		w.fail()
	case n < 92:
		w.now = w.now.Add(time.Duration(w.rng.IntN(10)) * 500 * time.Millisecond)
		if w.rng.IntN(2) == 0 {
			w.note("tick %v", w.now)
			w.tick()
		}
	case n < 93:
		w.leave(member)
	case n < 94:
		w.expire(member)
	case n < 95:
		w.deleteRecords()
	case n < 96:
		w.compact()
	case n < 98:
		w.crash()
	default:
		w.highest = max(w.highest, w.cfg.MaxDeliveryCount)
		w.cfg.MaxDeliveryCount, w.cfg.MaxInFlight = 1+w.rng.IntN(6), int64(1+w.rng.IntN(40))
	}
	if w.rng.IntN(3) == 0 {
		w.tick()
	}
	w.compare()
}

// drain makes one member accept all other records. No record is stuck or left out.
func (w *world) drain() {
	for _, m := range []string{"a", "b", "c", "d"} {
		w.leave(m)
	}
	if w.rng.IntN(2) == 0 {
		w.cfg.MaxDeliveryCount = math.MaxInt16
	}
	for i := 0; w.start < w.logEnd; i++ {
		w.require(i < 10_000, "stuck at %d of %d", w.start, w.logEnd)
		before := w.start
		for _, d := range w.fetch("z", Limit{Records: 5}) {
			w.acknowledge("z", []Ack{{First: d.First, Last: d.Last, Types: []AckType{Accept}}})
		}
		if before == w.start && (len(w.log) == 0 || w.log[len(w.log)-1].Last < w.start) {
			break // the remaining offsets were compacted away
		}
	}
	w.flush()
	w.require(len(w.p.All()) == 0, "left: %+v", w.p.All())
}

// Checklist rows S1, S2, S3: random histories run beside a model of single offsets, with crashes.
// In the end every record is accepted: none is stuck.
func TestShareOfAPartitionIsThatOfOneOffsetAfterTheOther(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, seed)
		for range 300 {
			w.step()
		}
		w.drain()
	}
}
