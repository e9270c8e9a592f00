package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// OffsetInfo is where a group stands in a partition.
type OffsetInfo struct {
	record.Committed       // Offset is -1 if the group has committed none
	Start            int64 // first offset of the partition; -1: see Err
	End              int64 // next offset to be written; -1: see Err
	Lag              int64 // records from the committed offset, or from Start if there is none or it is lower, to End; -1: see Err

	CommittedAt time.Time // when the group committed it, in ms; zero: it has committed none

	// Err is why Start, End and Lag are not known: ErrUnknownTopicOrPartition if there is no such
	// partition any more, replication.ErrNotLeader if nobody leads it now, or the error of its
	// leader. nil: they are. Kafka's tools show a "-" for all of these.
	Err error
}

// Lag returns the sum of the known lags.
func (i Info) Lag() (total int64) {
	for _, o := range i.Offsets {
		total += max(o.Lag, 0)
	}
	return total
}

// A GroupLag says how far a group is behind, and how long it will be.
type GroupLag struct {
	Group   string
	State   State
	Members int
	Lag     int64 // records that it has not committed, in all partitions where that is known; see OffsetInfo

	// Drain is how long the group takes to catch up at the rate since an earlier call of Lags (the
	// last one that is at least a second ago): 0 if there is no lag, DrainNever if the lag does not
	// shrink, and DrainUnknown if there was no such call, or the lag of a partition is unknown.
	Drain time.Duration

	// Unknown is in how many partitions the lag is not known, because nobody leads them for one.
	// Those that do not exist any more do not count. LagLimit.Check does not look at it.
	Unknown int
}

// What GroupLag.Drain is when it is no duration.
const (
	DrainUnknown time.Duration = -1
	DrainNever   time.Duration = -2
)

// lagSamples are what two earlier calls of Lags saw of a group; the older serves while the newer is
// younger than minSample.
type lagSamples struct{ older, newer lagSample }

type lagSample struct {
	at  time.Time // zero: none
	lag int64
}

const minSample = time.Second

// next returns the samples with a new one added, and the time to drain from there.
func (s lagSamples) next(now lagSample) (lagSamples, time.Duration) {
	if s.newer.at.IsZero() || now.at.Sub(s.newer.at) >= minSample {
		s = lagSamples{older: s.newer, newer: now}
	}
	return s, s.drain(now)
}

func (s lagSamples) drain(now lagSample) time.Duration {
	if s.older.at.IsZero() {
		return DrainTime(now.lag, 0, 0)
	}
	return DrainTime(now.lag, s.older.lag, now.at.Sub(s.older.at))
}

// standing is what a group's lag is computed from.
type standing struct {
	Info
	offsets map[record.TopicPartition]offsets.OffsetValue
}

func (c *Coordinator) standingOf(g *kinds.Group) standing {
	return standing{c.newInfo(g.View()), maps.Clone(g.Offsets())}
}

// partitions returns those that the group has committed and all others of its topics: those it has
// committed offsets in and those its members subscribe to.
func (s standing) partitions(topics map[string]TopicInfo) []record.TopicPartition {
	all := make(map[record.TopicPartition]bool)
	names := make(map[string]bool)
	for tp := range s.offsets {
		all[tp], names[tp.Topic] = true, true
	}
	for _, m := range s.Members {
		for _, t := range m.Topics {
			names[t] = true
		}
	}
	for name := range names {
		for p := range topics[name].Partitions {
			all[record.TopicPartition{Topic: name, Partition: p}] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// topicsOf is for lookup: it names every topic of the groups, and so that a topic is asked for
// again if it has grown beyond what is known.
func topicsOf(groups []standing) func(yield func(record.TopicPartition) bool) {
	return func(yield func(record.TopicPartition) bool) {
		for _, s := range groups {
			for tp := range s.offsets {
				if !yield(tp) {
					return
				}
			}
			for _, m := range s.Members {
				for _, t := range m.Topics {
					if !yield(record.TopicPartition{Topic: t}) {
						return
					}
				}
			}
		}
	}
}

// measure fills in the offsets of groups. The logs are asked once for all of them.
func (c *Coordinator) measure(ctx context.Context, groups []standing) error {
	topics, err := c.lookup(ctx, topicsOf(groups))
	if err != nil {
		return err
	}
	asked := make(map[record.TopicPartition]bool)
	for _, s := range groups {
		for _, tp := range s.partitions(topics) {
			asked[tp] = true
		}
	}
	tps := slices.Collect(maps.Keys(asked))
	b, err := c.bounds(ctx, tps)
	if err != nil {
		return err
	}
	for i := range groups {
		s := &groups[i]
		s.Offsets = make(map[record.TopicPartition]OffsetInfo)
		for _, tp := range s.partitions(topics) {
			s.Offsets[tp] = s.offset(tp, topics[tp.Topic].ID, b)
		}
	}
	return nil
}

// bounds are where partitions begin and end, as far as that is known.
type bounds struct {
	starts, ends record.Offsets
	unknown      map[record.TopicPartition]error
}

func (c *Coordinator) bounds(ctx context.Context, tps []record.TopicPartition) (b bounds, err error) {
	var startless, endless map[record.TopicPartition]error
	if b.starts, startless, err = c.store.ListOffsets(ctx, tps, partition.Earliest); err != nil {
		return b, err
	}
	b.ends, endless, err = c.store.ListOffsets(ctx, tps, partition.Latest)
	b.unknown = make(map[record.TopicPartition]error)
	maps.Copy(b.unknown, startless)
	maps.Copy(b.unknown, endless)
	return b, err
}

// why returns why the bounds of a partition are not known, nil if they are.
func (b *bounds) why(tp record.TopicPartition) error {
	if err := b.unknown[tp]; err != nil {
		return err
	}
	_, begins := b.starts[tp]
	_, ends := b.ends[tp]
	if !begins || !ends {
		return fmt.Errorf("%w: %s-%d", ErrUnknownTopicOrPartition, tp.Topic, tp.Partition)
	}
	return nil
}

func (s standing) offset(tp record.TopicPartition, id [16]byte, b bounds) OffsetInfo {
	i := OffsetInfo{Committed: record.Committed{Offset: -1, LeaderEpoch: -1}, Start: -1, End: -1, Lag: -1}
	if o, ok := s.offsets[tp]; ok && !otherTopic(o.TopicID, id) {
		i.Committed = record.Committed{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
		i.CommittedAt = time.UnixMilli(o.CommitMs)
	}
	if i.Err = b.why(tp); i.Err == nil {
		start, end := b.starts[tp], b.ends[tp]
		i.Start, i.End, i.Lag = start, end, max(end-max(i.Offset, start), 0)
	}
	return i
}

// otherTopic reports whether an offset is of an earlier topic of the same name.
func otherTopic(committed, now [16]byte) bool {
	return now != [16]byte{} && committed != [16]byte{} && committed != now
}

// Group describes a group with its offsets and lag, in all partitions of the topics that it has
// committed offsets in or its members subscribe to, also while it rebalances. What a group without
// members that has never committed would read is not known: it has no lag. It returns
// ErrGroupNotFound if there is none of that id.
func (c *Coordinator) Group(ctx context.Context, id string) (Info, error) {
	v, err := c.read(ctx, id, func(g *kinds.Group) any { return c.standingOf(g) })
	if err != nil {
		return Info{}, err
	}
	s, ok := v.(standing)
	if !ok {
		return Info{}, fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	groups := []standing{s}
	if err := c.measure(ctx, groups); err != nil {
		return Info{}, err
	}
	return groups[0].Info, nil
}

// Lags returns the lag of every group, sorted by id, and how long each takes to catch up. Whoever
// calls it every few seconds sees whether a group needs more members: LagLimit.Check says that it
// is beyond what its application tolerates. If some groups cannot be asked for, the
// others come with an error, as in Groups.
func (c *Coordinator) Lags(ctx context.Context) ([]GroupLag, error) {
	var groups []standing
	missing := c.each(ctx, func(_ string, g *kinds.Group) { groups = append(groups, c.standingOf(g)) })
	if err := c.measure(ctx, groups); err != nil {
		return nil, errors.Join(missing, err)
	}
	slices.SortFunc(groups, func(a, b standing) int { return cmp.Compare(a.ID, b.ID) })
	return c.sample(groups, missing == nil && c.broker == anyBroker), missing
}

// sample notes where the groups stand and returns how they do. all says that there are no others:
// nothing is kept of those that are gone.
func (c *Coordinator) sample(groups []standing, all bool) []GroupLag {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	samples := c.samples
	if all {
		samples = make(map[string]lagSamples, len(groups))
	}
	out := make([]GroupLag, 0, len(groups))
	for _, s := range groups {
		l := GroupLag{Group: s.ID, State: s.State, Members: len(s.Members), Lag: s.Lag()}
		for _, o := range s.Offsets {
			if o.Err != nil && !errors.Is(o.Err, ErrUnknownTopicOrPartition) {
				l.Unknown++
			}
		}
		if l.Unknown > 0 { // what is known has not shrunk by that
			samples[s.ID], l.Drain = c.samples[s.ID], DrainUnknown
		} else {
			samples[s.ID], l.Drain = c.samples[s.ID].next(lagSample{now, l.Lag})
		}
		out = append(out, l)
	}
	c.samples = samples
	return out
}
