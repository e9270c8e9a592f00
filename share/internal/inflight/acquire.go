package inflight

import (
	"math"
	"time"
)

// Fetched is what was read of the log for a member: every batch from offset From on up to the last.
type Fetched struct {
	From    int64     // what Next returned
	Batches []Offsets // by offset; between them there are no records
}

// Offsets are those of a batch of the log.
type Offsets struct {
	First, Last int64 // both inclusive

	// Skip says that there is nothing in it for members: it is a control batch, or of an aborted
	// transaction.
	Skip bool
}

// A Limit bounds what is acquired at once.
type Limit struct {
	Records int // at least 1

	// Exact says that no more than Records are acquired. Otherwise a batch of the log is taken as a
	// whole, and there may be more. Kafka: share.acquire.mode record_limit.
	Exact bool
}

// A Delivery is a range that is handed to the member that asked.
type Delivery struct {
	First, Last int64 // both inclusive
	Count       int16 // deliveries, this one included
}

// An acquirer is what Acquire knows while it goes on.
type acquirer struct {
	p        *Partition
	member   string
	deadline int64
	room     int64 // records that may still be taken
	got      []Delivery
}

// Acquire hands what was fetched to a member, as far as it is available, and returns which offsets
// that is, in order. Some of them may have no record in the log, inside a batch that was compacted:
// these the member acknowledges as a Gap. Offsets between batches, and those to be skipped, are
// archived.
func (p *Partition) Acquire(now time.Time, member string, f Fetched, limit Limit) []Delivery {
	p.Tick(now)
	a := acquirer{p: p, member: member, deadline: now.Add(p.cfg.LockDuration).UnixNano(), room: int64(limit.Records)}
	from := f.From
	for _, b := range f.Batches {
		if b.Last < from {
			continue // below what was asked for: batches are read as a whole
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

// archive says that there is nothing to be handed out from first to last: what is there is no
// record. What a member has it will find out itself.
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
	p.advance() // nothing that is done with takes up room
}

// take acquires what is available from first to last, part of one batch, and reports whether the
// batches behind it may be looked at, too.
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

// parts reports whether what was delivered so often is handed out in smaller parts.
func (p *Partition) parts(r *run) bool {
	return int(r.count) >= p.cfg.throttleFrom()
}

// part is how much of such a run is handed out at once: half of it, and before the last time one
// record.
func (p *Partition) part(r *run) int64 {
	if int(r.count) >= p.cfg.MaxDeliveryCount-1 {
		return 1
	}
	return max(1, (r.last-r.first+1)/2)
}

// acquire hands the run at i to the member.
func (a *acquirer) acquire(i int) {
	r := &a.p.runs[i]
	n := r.last - r.first + 1
	a.p.available -= n
	a.room -= n
	r.state, r.member, r.deadline = Acquired, a.member, a.deadline
	r.count++
	a.p.armed(r.deadline)
	if k := len(a.got); k > 0 && a.got[k-1].Last == r.first-1 && a.got[k-1].Count == r.count {
		a.got[k-1].Last = r.last
		return
	}
	a.got = append(a.got, Delivery{First: r.first, Last: r.last, Count: r.count})
}
