package inflight

import (
	"math"
	"time"
)

// Fetched has the batches of the log from offset From to the end of the last one, read for a
// member.
type Fetched struct {
	From    int64     // offset that Next returned
	Batches []Offsets // by offset; between them there are no records
}

// Offsets is the range of one batch of the log.
type Offsets struct {
	First, Last int64 // both inclusive

	// Skip is set if the batch has no records for members: it is a control batch, or of an aborted
	// transaction.
	Skip bool
}

// A Limit bounds an Acquire.
type Limit struct {
	Records int // at least 1

	// Exact is set if Records is a strict limit. Otherwise batches of the log are acquired whole,
	// and there may be more. Kafka: share.acquire.mode record_limit.
	Exact bool

	// BeginLater is set if the records are only locked: their delivery starts with Begin, and only
	// then counts. Records that are released before were not delivered.
	BeginLater bool
}

// A Delivery is a range of records acquired by a member.
type Delivery struct {
	First, Last int64 // both inclusive
	Count       int16 // of deliveries, including this one even with BeginLater
}

// An acquirer is the state of one Acquire.
type acquirer struct {
	p        *Partition
	member   string
	deadline int64
	room     int64 // records that may still be taken
	pending  bool  // Limit.BeginLater
	got      []Delivery
}

// Acquire locks the available records of f for a member and returns their offsets, in order. Some
// offsets may have no record, in batches that were compacted: the member acknowledges them as a
// Gap. Offsets between batches, and in batches to skip, are archived.
func (p *Partition) Acquire(now time.Time, member string, f Fetched, limit Limit) []Delivery {
	p.Tick(now)
	a := acquirer{p: p, member: member, deadline: now.Add(p.cfg.LockDuration).UnixNano(), room: int64(limit.Records), pending: limit.BeginLater}
	from := f.From
	for _, b := range f.Batches {
		if b.Last < from {
			continue // batches are read whole, so the first may begin below From
		}
		if a.room <= 0 {
			break
		}
		p.archive(from, b.First-1)
		first := max(b.First, from)
		from = b.Last + 1
		if b.Skip {
			p.archive(first, b.Last)
			continue
		}
		before := a.room
		if !limit.Exact {
			a.room = math.MaxInt64
		}
		goOn := a.take(first, b.Last)
		if !limit.Exact {
			a.room = before - (math.MaxInt64 - a.room)
		}
		if !goOn {
			break
		}
	}
	p.join(0, len(p.runs))
	p.advance()
	return a.got
}

// archive archives the available offsets from first to last: they have no records. Acquired ones
// stay: their members will notice.
func (p *Partition) archive(first, last int64) {
	first = max(first, p.start)
	if in := min(last, p.end-1); first <= in {
		i, j := p.between(first, in)
		for ; i < j; i++ {
			if p.runs[i].state == Available {
				p.become(&p.runs[i], Archived)
			}
		}
	}
	if first = max(first, p.end); first <= last {
		p.extend(run{first: first, last: last, state: Archived, dirty: true})
	}
	p.advance() // archived offsets take no room
}

// take acquires the available records from first to last, which are in one batch. It reports
// whether the next batch may be acquired as well.
func (a *acquirer) take(first, last int64) (goOn bool) {
	p := a.p
	if first = max(first, p.start); first > last {
		return true
	}
	for i := p.find(first); i < len(p.runs) && p.runs[i].first <= last && a.room > 0; i++ {
		if p.runs[i].state != Available {
			continue
		}
		from, to := max(first, p.runs[i].first), min(last, p.runs[i].last)
		parts := p.parts(&p.runs[i])
		if parts && len(a.got) > 0 {
			return false
		}
		n := min(to-from+1, a.room)
		if parts {
			n = min(n, p.part(&p.runs[i]))
		}
		_, j := p.between(from, from+n-1)
		i = j - 1
		a.acquire(i)
		if parts {
			return false
		}
	}
	from := max(first, p.end)
	n := min(last-from+1, a.room, p.start+p.cfg.MaxInFlight-from)
	if n > 0 {
		p.extend(run{first: from, last: from + n - 1})
		a.acquire(p.split(from))
	}
	return from > last || n == last-from+1
}

// parts reports whether r was delivered so often that it is acquired in smaller parts.
func (p *Partition) parts(r *run) bool {
	return int(r.count) >= p.cfg.throttleFrom()
}

// part returns the number of records of such a run to acquire at once: half of it, or one before
// the last delivery.
func (p *Partition) part(r *run) int64 {
	if int(r.count) >= p.cfg.MaxDeliveryCount-1 {
		return 1
	}
	return max(1, (r.last-r.first+1)/2)
}

// acquire locks the run at i for the member.
func (a *acquirer) acquire(i int) {
	r := &a.p.runs[i]
	n := r.last - r.first + 1
	a.p.available -= n
	a.room -= n
	r.state, r.member, r.deadline, r.pending = Acquired, a.member, a.deadline, a.pending
	count := r.count + 1
	if !a.pending {
		r.count = count
	}
	a.p.armed(r.deadline)
	if k := len(a.got); k > 0 && a.got[k-1].Last == r.first-1 && a.got[k-1].Count == count {
		a.got[k-1].Last = r.last
		return
	}
	a.got = append(a.got, Delivery{First: r.first, Last: r.last, Count: count})
}
