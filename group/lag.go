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
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// OffsetInfo is the progress of a group in a partition.
type OffsetInfo struct {
	record.Committed       // Offset is -1 if the group has committed none
	Start            int64 // first offset of the partition; -1: see Err
	End              int64 // offset of the next record to be written; -1: see Err
	Lag              int64 // see PartitionLag; -1: see Err

	CommittedAt time.Time // time of the commit, in ms; zero: none

	// Err is the reason why Start, End and Lag are unknown, nil if they are known:
	// ErrUnknownTopicOrPartition if the partition no longer exists, replication.ErrNotLeader if it
	// has no leader, or the error of its leader. Kafka's tools show a "-" for all of these.
	Err error
}

// PartitionLag returns the number of offsets that a group is behind in a partition: from the
// committed offset to end, or from start if committed is lower or -1 for none. Deleted records do
// not count, nor does a commit beyond the end. Offsets of transaction markers count like those of
// records. The result is never negative.
//
// Kafka's tools also count deleted records from the committed offset on.
func PartitionLag(committed, start, end int64) int64 {
	return max(end-max(committed, start), 0)
}

// Lag returns the sum of the known lags.
func (i Info) Lag() (total int64) {
	for _, o := range i.Offsets {
		total += max(o.Lag, 0)
	}
	return total
}

// A GroupLag is the lag of a group and the time it needs to catch up.
type GroupLag struct {
	Group   string
	State   State
	Members int
	Lag     int64 // uncommitted offsets in all partitions where that is known; see OffsetInfo

	// Drain is the time that the group needs to catch up at its rate in the last minute. It is 0 if
	// there is no lag, DrainNever if the lag does not shrink, and DrainUnknown if the rate or the lag
	// of a partition is unknown.
	//
	// All callers in the process share the samples from which the rate is measured, so that each
	// gets the same value. Lags takes a sample if the last one is at least 10 s old. The rate is
	// measured from the last sample that is at least a minute old: after a pause of an hour that is
	// the rate of the hour. If there is none it is measured from the first sample. In the first
	// 10 s, and therefore in the first call, the rate is unknown.
	Drain time.Duration

	// Unknown is the number of partitions whose lag is unknown, for example because they have no
	// leader. Partitions that no longer exist do not count. LagLimit.Check ignores it.
	Unknown int
}

// Values of GroupLag.Drain that are not durations.
const (
	DrainUnknown time.Duration = -1
	DrainNever   time.Duration = -2
)

// A standing is the input for a group's lag.
type standing struct {
	Info
	offsets map[record.TopicPartition]offsets.OffsetValue
}

func (c *Coordinator) standingOf(g *kinds.Group) standing {
	return standing{c.newInfo(g.View()), maps.Clone(g.Offsets())}
}

// partitions returns the partitions with committed offsets, and all others of their topics and of
// the members' topics.
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

// topicsOf yields every topic of the groups for lookup, with its highest partition, so that a topic
// that has grown is read again.
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

// measure sets the offsets of groups, with one request to the logs for all. It returns their
// topics.
func (c *Coordinator) measure(ctx context.Context, groups []standing) (topics map[string]TopicInfo, err error) {
	if topics, err = c.lookup(ctx, topicsOf(groups)); err != nil {
		return nil, err
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
		return nil, err
	}
	for i := range groups {
		s := &groups[i]
		s.Offsets = make(map[record.TopicPartition]OffsetInfo)
		for _, tp := range s.partitions(topics) {
			s.Offsets[tp] = s.offset(tp, topics[tp.Topic].ID, b)
		}
	}
	return topics, nil
}

// bounds are the known start and end offsets of partitions.
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

// why returns the reason why the bounds of a partition are unknown, nil if they are known.
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
		i.Start, i.End, i.Lag = start, end, PartitionLag(i.Offset, start, end)
	}
	return i
}

// otherTopic reports whether an offset is of an earlier topic of the same name.
func otherTopic(committed, now [16]byte) bool {
	return now != [16]byte{} && committed != [16]byte{} && committed != now
}

// Group describes a group with its offsets and lag, in all partitions of topics in which it has
// committed offsets or to which its members subscribe, also during a rebalance. A group without
// members and offsets has no lag. It returns ErrGroupNotFound if there is no such group.
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
	if _, err := c.measure(ctx, groups); err != nil {
		return Info{}, err
	}
	return groups[0].Info, nil
}

// Lags returns the lag of every group, sorted by id, and the time that each needs to catch up. Call
// it every few seconds to find groups that need more members: LagLimit.Check compares a lag with
// the limit of an application. If some groups are unavailable, it returns the others with an error,
// as Groups does.
func (c *Coordinator) Lags(ctx context.Context) ([]GroupLag, error) {
	var groups []standing
	missing := c.each(ctx, func(_ string, g *kinds.Group) { groups = append(groups, c.standingOf(g)) })
	if _, err := c.measure(ctx, groups); err != nil {
		return nil, errors.Join(missing, err)
	}
	slices.SortFunc(groups, func(a, b standing) int { return cmp.Compare(a.ID, b.ID) })
	return c.sample(groups, missing == nil && c.broker == anyBroker), missing
}

// sample records the lags of the groups and returns their trends. If all is set, groups lists all
// groups that exist.
func (c *Coordinator) sample(groups []standing, all bool) []GroupLag {
	out := make([]GroupLag, 0, len(groups))
	for _, s := range groups {
		l := GroupLag{Group: s.ID, State: s.State, Members: len(s.Members), Lag: s.Lag()}
		for _, o := range s.Offsets {
			if o.Err != nil && !errors.Is(o.Err, ErrUnknownTopicOrPartition) {
				l.Unknown++
			}
		}
		out = append(out, l)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lags.drains(time.Now(), out, all)
	return out
}
