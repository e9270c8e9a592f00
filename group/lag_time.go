package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/record"
)

// A TimeLag is the lag of a group in time.
type TimeLag struct {
	Group string

	// Lag is the largest of Partitions: the age of the oldest record that the group has not
	// committed. 0 means that there is none, as far as known.
	Lag time.Duration

	// Partitions has the age of the oldest record not committed, for each partition where it is
	// known, and 0 where the group has committed all records.
	Partitions map[record.TopicPartition]time.Duration

	// Unknown is the number of other partitions: those without a leader, with a disk that does not
	// respond, whose records have no timestamps, or that are beyond the bound of a call. Partitions
	// that no longer exist do not count.
	Unknown int
}

const (
	// maxTimeLookups bounds the timestamps that a call of TimeLags reads from logs.
	maxTimeLookups = 200
	// oldestFresh is the time for which a timestamp is not read again. Compaction may remove the
	// record of it, and then a later one is the oldest.
	oldestFresh = time.Minute
)

// A lagging is a partition in which a group has uncommitted offsets.
type lagging struct {
	group string
	record.TopicPartition
}

// An oldestRecord is the first record that a group has not committed in a partition, as it was
// read from the log.
type oldestRecord struct {
	topic [16]byte  // the topic's id
	from  int64     // the first uncommitted offset that the log has
	until int64     // there are no records in [from, until)
	found bool      // there is a record
	ms    int64     // its timestamp; negative: it has none
	read  time.Time // zero: not yet
}

// A timeLookup is a timestamp to be read.
type timeLookup struct {
	of   lagging
	end  int64        // of the partition
	last oldestRecord // as known so far
}

// TimeLags returns for every group, sorted by id, the age of the oldest record that it has not
// committed, by the record's timestamp. Ages are exact to one batch, nothing is estimated: a
// partition where that takes too long is counted as unknown. Markers of transactions are no
// records, so a group that has only these left has no lag. A timestamp in the future has age 0.
//
// A call reads at most 200 timestamps from logs, and keeps them for a minute, or longer while there
// are many, as long as the group commits nothing. After a commit the partition's timestamp is read
// again. Partitions that were read least recently come first, so that repeated calls reach all. A
// disk that does not respond delays a call by at most 500 ms. If some groups are unavailable, it
// returns the others with an error, as Groups does.
func (c *Coordinator) TimeLags(ctx context.Context) ([]TimeLag, error) {
	var groups []standing
	missing := c.each(ctx, func(_ string, g *kinds.Group) { groups = append(groups, c.standingOf(g)) })
	topics, err := c.measure(ctx, groups)
	if err != nil {
		return nil, errors.Join(missing, err)
	}
	slices.SortFunc(groups, func(a, b standing) int { return cmp.Compare(a.ID, b.ID) })
	known, lookups := c.rememberedOldest(groups, topics)
	if err := c.readOldest(ctx, known, lookups); err != nil {
		return nil, errors.Join(missing, err)
	}
	c.rememberOldest(known, missing == nil && c.broker == anyBroker)
	out := make([]TimeLag, len(groups))
	for i, s := range groups {
		out[i] = s.timeLag(known, time.Now())
	}
	return out, missing
}

// rememberedOldest returns the oldest records as far as they are known, and the ones that have to
// be read, at most maxTimeLookups of them.
func (c *Coordinator) rememberedOldest(groups []standing, topics map[string]TopicInfo) (known map[lagging]oldestRecord, lookups []timeLookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = make(map[lagging]oldestRecord)
	now := time.Now()
	for _, s := range groups {
		for tp, o := range s.Offsets {
			if o.Err != nil || o.Lag == 0 {
				continue
			}
			key := lagging{s.ID, tp}
			r, from, id := c.oldest[key], max(o.Offset, o.Start), topics[tp.Topic].ID
			if r.from != from || r.topic != id {
				r = oldestRecord{topic: id, from: from, until: from, read: r.read}
			}
			if !r.found && now.Sub(r.read) >= oldestFresh {
				r.until = from // after an unclean election there may be others
			}
			known[key] = r
			if r.found && now.Sub(r.read) < oldestFresh || !r.found && r.until >= o.End {
				continue
			}
			lookups = append(lookups, timeLookup{key, o.End, r})
		}
	}
	slices.SortFunc(lookups, func(a, b timeLookup) int {
		return cmp.Or(a.last.read.Compare(b.last.read), cmp.Compare(a.of.group, b.of.group), cmp.Compare(a.of.Topic, b.of.Topic), cmp.Compare(a.of.Partition, b.of.Partition))
	})
	return known, boundLookups(lookups)
}

// boundLookups returns the first lookups, of at most maxTimeLookups positions in logs.
func boundLookups(lookups []timeLookup) []timeLookup {
	type position struct {
		tp record.TopicPartition
		at int64
	}
	taken := make(map[position]bool)
	return slices.DeleteFunc(lookups, func(l timeLookup) bool {
		at := position{l.of.TopicPartition, l.last.until}
		if len(taken) == maxTimeLookups && !taken[at] {
			return true
		}
		taken[at] = true
		return false
	})
}

// readOldest reads timestamps into known. Each request to the logs has one offset of a partition.
// So partitions whose disks do not respond are in the first one, and are left out of the others.
func (c *Coordinator) readOldest(ctx context.Context, known map[lagging]oldestRecord, lookups []timeLookup) error {
	for len(lookups) > 0 {
		ask := make(record.Offsets)
		var now, later []timeLookup
		for _, l := range lookups {
			if at, taken := ask[l.of.TopicPartition]; taken && at != l.last.until {
				later = append(later, l)
				continue
			}
			ask[l.of.TopicPartition] = l.last.until
			now = append(now, l)
		}
		got, err := c.store.TimestampsAt(ctx, ask)
		if err != nil {
			return err
		}
		for _, l := range now {
			r, at := l.last, got[l.of.TopicPartition]
			r.read = time.Now()
			switch {
			case at.Err != nil:
			case at.Offset < 0:
				r.found, r.until = false, l.end
			default:
				r.found, r.ms = true, at.TimestampMs
			}
			known[l.of] = r
		}
		lookups = slices.DeleteFunc(later, func(l timeLookup) bool { return got[l.of.TopicPartition].Err != nil })
	}
	return nil
}

// rememberOldest keeps the oldest records for later calls. If all is set, known has those of all
// groups.
func (c *Coordinator) rememberOldest(known map[lagging]oldestRecord, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.oldest {
		if _, ok := known[key]; !ok && (all || time.Since(r.read) >= lagForget) {
			delete(c.oldest, key)
		}
	}
	for key, r := range known {
		c.oldest[key] = r
	}
}

func (s standing) timeLag(known map[lagging]oldestRecord, now time.Time) TimeLag {
	l := TimeLag{Group: s.ID, Partitions: make(map[record.TopicPartition]time.Duration)}
	for tp, o := range s.Offsets {
		r := known[lagging{s.ID, tp}]
		switch {
		case errors.Is(o.Err, ErrUnknownTopicOrPartition):
		case o.Err != nil:
			l.Unknown++
		case o.Lag == 0, !r.found && r.until >= o.End: // all is committed, except for markers
			l.Partitions[tp] = 0
		case !r.found, r.ms < 0:
			l.Unknown++
		default:
			l.Partitions[tp] = max(now.Sub(time.UnixMilli(r.ms)), 0)
			l.Lag = max(l.Lag, l.Partitions[tp])
		}
	}
	return l
}
