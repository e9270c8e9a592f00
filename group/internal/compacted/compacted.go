// Package compacted compacts an offsets topic, for tests of the machines with records in one: a
// machine loaded from the result must equal a machine that is loaded from all.
package compacted

import "github.com/stratalog/strata/internal/offsets"

// An Entry is a record of the log, or the marker that ends a producer's transaction.
type Entry struct {
	Record      offsets.Record
	Producer    int64 // producer of the transaction; 0: in none
	End, Commit bool  // End: it is a marker; Commit: the marker of a commit
}

// A Machine is loaded from a log.
type Machine interface {
	Apply(offsets.Record)
	ApplyPending(producerID int64, r offsets.Record)
	ApplyEnd(producerID int64, commit bool)
}

// Load applies a log as a coordinator does when it loads a partition of the offsets topic.
func Load(m Machine, log []Entry) {
	for _, e := range log {
		switch {
		case e.End:
			m.ApplyEnd(e.Producer, e.Commit)
		case e.Producer != 0:
			m.ApplyPending(e.Producer, e.Record)
		default:
			m.Apply(e.Record)
		}
	}
}

// Entries returns records that are in no transaction as a log.
func Entries(records []offsets.Record) []Entry {
	log := make([]Entry, 0, len(records))
	for _, r := range records {
		log = append(log, Entry{Record: r})
	}
	return log
}

// Stable returns the number of entries before the first open transaction: as many can be compacted.
func Stable(log []Entry) int {
	first := make(map[int64]int)
	for i, e := range log {
		if e.End {
			delete(first, e.Producer)
		} else if _, open := first[e.Producer]; e.Producer != 0 && !open {
			first[e.Producer] = i
		}
	}
	n := len(log)
	for _, i := range first {
		n = min(n, i)
	}
	return n
}

// Log returns the log with its first end entries compacted. Of these, the last committed entry of
// each key remains, and the markers of transactions with remaining records. end is at most Stable.
// purged removes old tombstones too.
func Log(log []Entry, end int, purged bool) []Entry {
	aborted := abortedIn(log)
	last := make(map[offsets.Key]int)
	for i, e := range log[:end] {
		if !e.End && !aborted[i] {
			last[e.Record.Key] = i
		}
	}
	var out []Entry
	unfinished := make(map[int64]bool) // producers with records in out that no marker has ended
	for i, e := range log {
		switch {
		case e.End:
			if i < end && !unfinished[e.Producer] {
				continue
			}
			delete(unfinished, e.Producer)
		case i < end && (aborted[i] || last[e.Record.Key] != i || purged && e.Record.Tombstone()):
			continue
		default:
			unfinished[e.Producer] = true
		}
		out = append(out, e)
	}
	return out
}

// abortedIn returns which entries are of transactions that were aborted.
func abortedIn(log []Entry) map[int]bool {
	aborted, open := make(map[int]bool), make(map[int64][]int)
	for i, e := range log {
		switch {
		case e.End:
			for _, j := range open[e.Producer] {
				aborted[j] = !e.Commit
			}
			delete(open, e.Producer)
		case e.Producer != 0:
			open[e.Producer] = append(open[e.Producer], i)
		}
	}
	return aborted
}
