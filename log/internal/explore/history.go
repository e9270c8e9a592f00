package explore

import (
	"slices"
	"sync"
)

type factKind uint8

const (
	submitted   factKind = iota // recs have been handed to the log
	refused                     // and records [id, id+n) refused: their write failed, and the log goes on; durable says that the policy was SyncOnAck
	written                     // and records [id, id+n) appended from offset on
	acked                       // and confirmed to be on stable storage
	synced                      // everything below offset is on stable storage
	deleting                    // DeleteRecords(offset) has begun
	deleted                     // and returned
	cleaning                    // Clean has begun; offset is the largest start it may leave
	cleaned                     // and returned; the log starts at offset
	cleanFailed                 // or failed
	truncating                  // TruncateTo(offset) has begun
	truncated                   // and returned; the log ends at offset
	unchanged                   // or failed and cut nothing
	restarting                  // TruncateFully(offset) has begun
	restarted                   // and returned
	removing                    // Remove has begun
	removed                     // and returned
	vanished                    // or failed, and there is nothing where the log was
	reopened                    // the log was opened after a crash, and holds [offset, end) with recs; at is the next record's id, id and n the newest epoch and where it begins
	epoch                       // SetLeaderEpoch(id) has returned; it begins at offset
	backing                     // Backup to name has begun
	backed                      // and returned
)

// A fact is one thing the run knows of a log.
type fact struct {
	kind    factKind
	log     int
	id, n   int64
	offset  int64
	end     int64
	at      int64
	recs    []rec
	offsets []int64 // of recs, where they are known
	bases   []int64 // first and last offset of the batches they are in
	lasts   []int64
	durable bool
	shadows bool // cleaning: records with a later one of their key may go
	name    string
}

// history is what is known, in the order it came to be known.
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

// timeGrain is what times are multiples of, in ms: coarse, so that different records have the same.
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

// forget drops the facts: those that say what there is after a crash follow.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts = nil
}
