package log

import (
	"math"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/segment"
)

// Purged tells what compaction has taken from a log of which no later record tells: tombstones and
// markers of transactions that are older than Config.DeleteRetention. Of anything else that it
// takes the log has a later record with the key, or the marker that has aborted it. So a copy of
// the log can go on behind its end if it has all that was purged, and has to begin anew if it ends
// before: it would show for ever what was deleted, and take transactions for open that are over.
type Purged struct {
	Below int64 // nothing was purged at or above this offset; 0: nothing at all
	// ID is drawn anew each time. Two logs with the same one lack the same: one has it from the
	// other, as of the beginning of its copy (TruncateFullyFrom), which may have got to any offset.
	ID uint64
}

// Copied may be implemented by an Owner whose log is copied: nothing is purged at or above the
// offset that PurgeBelow returns, so that copies under way need not begin anew.
type Copied interface{ PurgeBelow() int64 }

// Purged returns what compaction has purged, exclusive. A reader that finds the same before and
// after a read has read nothing from which anything was purged in between.
func (l *Log) Purged() Purged {
	if p := l.purged.Load(); p != nil {
		return *p
	}
	return Purged{}
}

// IsMissedBy reports whether a copy that ends at end, and has purged of its own or of what it was
// copied from what had says, may lack what p says was purged, and have what that ended.
func (p Purged) IsMissedBy(end int64, had Purged) bool {
	return p.ID != had.ID && (end < p.Below || end < had.Below)
}

// and returns p with what lies below an offset and a result of compaction lacks; 0: nothing.
func (p Purged) and(below int64) Purged {
	if below == 0 {
		return p
	}
	return Purged{max(p.Below, below), newIncarnation()}
}

// purgedBefore returns what the state of a log says was purged. Of one that an earlier version has
// written, or a Kafka broker, nobody knows: perhaps all but the last segment, in which compaction
// never is.
func purgedBefore(cfg *Config, st *manifest.State, list []*segment.Segment) (p Purged, guessed bool) {
	if st.Version >= 4 || len(list) < 2 || !cfg.Cleanup.Compacts() {
		return Purged{st.Purged, st.PurgeID}, false
	}
	return Purged{list[len(list)-1].Base(), newIncarnation()}, true
}

// BoundPurged is called by the owner of a log that was just opened, who knows that nothing was
// purged at or above offset. It counts if only that is known: see purgedBefore.
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
