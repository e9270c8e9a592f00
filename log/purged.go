package log

import (
	"math"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
)

// Purged describes the records that compaction has removed without a trace: tombstones and
// transaction markers older than Config.DeleteRetention. Any other record that it removes has a
// trace in the log: a later record with the same key, or the marker that aborted it. A copy of the
// log that lacks purged records must start again from the beginning if its end is below them.
// Otherwise it would keep deleted keys for ever, and would take completed transactions for open
// ones.
type Purged struct {
	Below int64 // nothing was purged at or above this offset; 0 means nothing was purged
	// ID is a random number that changes with every purge. Two logs with the same ID lack the same
	// records: one is a copy of the other (TruncateFullyFrom), up to any offset.
	ID uint64
}

// Copied may be implemented by an Owner whose log is copied. Compaction purges nothing at or above
// the offset that PurgeBelow returns, so that copies in progress need not start again.
type Copied interface{ PurgeBelow() int64 }

// Purged returns the bounds of the records that compaction has purged. If it returns the same
// value before and after a read, nothing was purged in between from the records of that read.
func (l *Log) Purged() Purged {
	if p := l.purged.Load(); p != nil {
		return *p
	}
	return Purged{}
}

// IsMissedBy reports whether a copy may lack records whose absence p describes, and may still have
// the records that these ended. The copy ends at end. had is its own Purged, or the Purged of the
// log from which it was copied.
func (p Purged) IsMissedBy(end int64, had Purged) bool {
	return p.ID != had.ID && (end < p.Below || end < had.Below)
}

// and returns p extended by the purged records of a compaction result below an offset; 0 means
// none.
func (p Purged) and(below int64) Purged {
	if below == 0 {
		return p
	}
	return Purged{max(p.Below, below), newIncarnation()}
}

// purgedBefore returns the Purged in the state of a log. For a log of an earlier version, or of a
// Kafka broker, it is unknown: possibly all but the last segment, which compaction never includes.
func purgedBefore(cfg *Config, st *manifest.State, list []*segment.Segment) (p Purged, guessed bool) {
	if st.Version >= 4 || len(list) < 2 || !cfg.Cleanup.Compacts() {
		return Purged{st.Purged, st.PurgeID}, false
	}
	return Purged{list[len(list)-1].Base(), newIncarnation()}, true
}

// BoundPurged lowers Purged to offset if Open could only estimate it, because an earlier version or
// a Kafka broker wrote the log. The owner of a log that was just opened calls it if it can prove
// that nothing was purged at or above offset.
func (l *Log) BoundPurged(offset int64) {
	if p := l.Purged(); l.purgeGuessed && p.Below > offset {
		l.purged.Store(&Purged{offset, p.ID})
	}
}

// purgeBelow returns the bound that the owner sets.
func (c *Config) purgeBelow() int64 {
	if o, ok := c.Owner.(Copied); ok {
		return o.PurgeBelow()
	}
	return math.MaxInt64
}
