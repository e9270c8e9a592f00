package explore

import (
	"slices"
	"sync"
)

type factKind uint8

const (
	submitted factKind = iota // recs were passed to the log
	// records [id, id+n) were refused: their write failed, and the log continues. durable is true
	// if the policy was SyncOnAck.
	refused
	written     // records [id, id+n) were appended from offset on
	acked       // they were appended and confirmed to be on stable storage
	synced      // everything below offset is on stable storage
	deleting    // DeleteRecords(offset) has begun
	deleted     // it returned
	cleaning    // Clean has begun; offset is the largest start it may leave
	cleaned     // it returned; the log starts at offset
	cleanFailed // it failed
	truncating  // TruncateTo(offset) has begun
	truncated   // it returned; the log ends at offset
	unchanged   // it failed and cut nothing
	restarting  // TruncateFully(offset) has begun
	restarted   // it returned
	removing    // Remove has begun
	removed     // it returned
	vanished    // it failed, and no file of the log is left
	// the log was opened after a crash and holds [offset, end) with recs. at is the next record's
	// id; id and n are the newest epoch and the offset where it begins.
	reopened
	epoch   // SetLeaderEpoch(id) has returned; it begins at offset
	backing // Backup to name has begun
	backed  // it returned
)

// A fact is one event in the life of a log. Its kind determines which fields are set.
type fact struct {
	kind    factKind
	log     int
	id, n   int64
	offset  int64
	end     int64
	at      int64
	recs    []rec
	offsets []int64 // of recs, where they were found
	bases   []int64 // first and last offset of the batch of each
	lasts   []int64
	durable bool
	shadows bool // cleaning: records with a later one of their key may be removed
	name    string
}

// history has the facts in the order in which the run learned them.
type history struct {
	mu sync.Mutex // guards the fields below

	facts []fact
	next  int64 // id of the next record
}

func (h *history) add(f fact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = append(h.facts, f)
}

// nextID returns the id of the next record.
func (h *history) nextID() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

// known returns the facts so far. The slice is never written to again.
func (h *history) known() []fact {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.facts)
}

// timeGrain is the unit of record times in ms: coarse, so that different records have the same
// time.
const timeGrain = 100

// take notes the submission of n new records to a log, with times around the given one.
func (h *history) take(log, n int, at int64) []rec {
	h.mu.Lock()
	defer h.mu.Unlock()
	var recs []rec
	for range n {
		recs = append(recs, rec{h.next, (at + int64(mix(h.next)>>8%1000) - 500) / timeGrain * timeGrain})
		h.next++
	}
	h.facts = append(h.facts, fact{kind: submitted, log: log, recs: recs})
	return recs
}

// forget drops all facts at a crash. The caller then adds the content found after it.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = nil
}
