package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Errors of Cutover, for errors.Is. ErrStillWritten and ErrDiffers are the cause of a *StopError.
var (
	// ErrStillWritten is returned when the source has records or open transactions that are not
	// forwarded, although Drain has just ended: a producer is still active.
	ErrStillWritten = errors.New("the source is still written to")
	// ErrDiffers is returned when the last records of a target partition differ from the source's.
	ErrDiffers = errors.New("the target has other records than the source")
	// ErrGroupBusy is returned for a group that has members, at the source or at the target, or
	// whose offsets change meanwhile.
	ErrGroupBusy = errors.New("mirror: the group has members")
	// ErrGroupHasOffsets is returned for a group that has other offsets of the topics at the
	// target.
	ErrGroupHasOffsets = errors.New("mirror: the group has other offsets at the target")
	// ErrTooFarBehind is returned for a group that has more than MaxTranslated records of a
	// partition to read.
	ErrTooFarBehind = errors.New("mirror: the group has too many records to read before the end")
)

// MaxTranslated is the largest number of records of a partition, before its end, for which Cutover
// translates an offset.
const MaxTranslated = 100_000

// A CutoverResult describes what Cutover has moved.
type CutoverResult struct {
	// Moved has the offsets of each group at the target.
	Moved map[string]record.Offsets
	// NotForwarded has, by group, the offsets at the source of topics that the mirror does not
	// forward. They were not moved. Groups without such offsets are not in it.
	NotForwarded map[string]record.Offsets
}

// Cutover moves groups to the target. It calls Drain, and then commits the offsets of each group at
// the target, for the same records: the group continues there with the record that it would have
// read next at the source. Offsets in topics that are not in ForwardConfig.Topics stay behind:
// see CutoverResult.NotForwarded.
//
// First stop the producers of the source and the members of the groups; start them at the target
// when Cutover has returned. Cutover checks that: see ErrStillWritten and ErrGroupBusy.
//
// Offsets differ between the clusters, so Cutover counts the committed records from the group's
// offset to the end of the source partition. It takes the same number at the end of the target
// partition, and compares each of them. It therefore needs a group that has read almost all records
// (ErrTooFarBehind), and a target that has nothing but the mirror's records there (ErrDiffers). It
// holds up to MaxTranslated records of one partition in memory.
//
// Compaction may have removed records at either cluster. In a compacted topic the group continues
// with the next record that both have. At the target it may get records again that the source has
// removed, each followed by a later one with its key.
//
// No offset is committed unless those of all groups have been translated. After an error Cutover
// may be called again. Errors are those of Drain and the ones above, group.ErrGroupNotFound, and
// ErrGap for a group whose next record the source has deleted.
func (f *Forward) Cutover(ctx context.Context, groups ...string) (CutoverResult, error) {
	if len(groups) == 0 {
		return CutoverResult{}, fmt.Errorf("mirror %q: %w", f.cfg.ID, configError("groups", "", "no group is named"))
	}
	var res CutoverResult
	err := f.alone(func() (err error) {
		if err := f.run(ctx, true); err != nil {
			return err
		}
		res, err = f.move(ctx, groups)
		return err
	})
	return res, err
}

// move translates and commits the offsets of groups.
func (f *Forward) move(ctx context.Context, groups []string) (res CutoverResult, err error) {
	before, err := f.sourceEnds(ctx)
	if err != nil {
		return res, err
	}
	offsets, moved, others := map[string]record.Offsets{}, map[string]record.Offsets{}, map[string]record.Offsets{}
	for _, id := range groups {
		if offsets[id], err = f.offsetsOf(ctx, id); err != nil {
			return res, err
		}
		if moved[id], err = f.translateAll(ctx, id, offsets[id], before); err != nil {
			return res, err
		}
		if err := f.checkAtTarget(ctx, id, moved[id]); err != nil {
			return res, err
		}
		other, err := f.notForwarded(ctx, id)
		if err != nil {
			return res, err
		}
		if len(other) > 0 {
			others[id] = other
		}
	}
	for _, id := range groups {
		again, err := f.offsetsOf(ctx, id)
		if err != nil {
			return res, err
		}
		for tp, offset := range again {
			if offsets[id][tp] != offset {
				return res, fmt.Errorf("mirror %q: group %s: %w", f.cfg.ID, id, ErrGroupBusy)
			}
		}
	}
	if _, err := f.sourceEnds(ctx); err != nil {
		return res, err
	}
	for _, id := range groups {
		if err := f.commitAtTarget(ctx, id, moved[id]); err != nil {
			return res, err
		}
	}
	for id, other := range others {
		f.cfg.Logger.Warn("offsets of a group were not moved: the mirror does not forward their topics", "mirror", f.cfg.ID, "group", id, "topics", topicsOf(other))
	}
	return CutoverResult{Moved: moved, NotForwarded: others}, nil
}

// notForwarded returns the committed offsets of a group in other topics than the mirror's.
func (f *Forward) notForwarded(ctx context.Context, id string) (record.Offsets, error) {
	committed, err := f.source.FetchOffsets(ctx, id, nil)
	if err != nil {
		return nil, fmt.Errorf("mirror %q: source: offsets of group %s: %w", f.cfg.ID, id, err)
	}
	others := record.Offsets{}
	for tp, at := range committed {
		if at.Offset >= 0 && !slices.Contains(f.cfg.Topics, tp.Topic) {
			others[tp] = at.Offset
		}
	}
	return others, nil
}

// topicsOf returns the names of the topics of offsets, sorted.
func topicsOf(offsets record.Offsets) []string {
	names := map[string]bool{}
	for tp := range offsets {
		names[tp.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// sourceEnds returns the ends of the source, which must be the mirror's position.
func (f *Forward) sourceEnds(ctx context.Context) (map[string][]int64, error) {
	ends := map[string][]int64{}
	for _, fl := range f.flows {
		all, err := offsets(ctx, f.source, fl.source, len(fl.reached), partition.Latest, partition.ReadUncommitted)
		if err != nil {
			return nil, err
		}
		for p, end := range all {
			if next := fl.reached[p].next; next < end {
				// Compaction can leave the end without records.
				for r, err := range f.readSource(ctx, fl, int32(p), next, partition.ReadUncommitted) {
					if err != nil {
						return nil, err
					}
					return nil, f.stop(fl.source, int32(p), r.Offset, ErrStillWritten)
				}
			}
		}
		ends[fl.source] = all
	}
	return ends, nil
}

func (f *Forward) readSource(ctx context.Context, fl *flow, p int32, from int64, iso partition.Isolation) iter.Seq2[record.Record, error] {
	return consumer.Read(ctx, f.source, consumer.ReadConfig{
		Topic: fl.source, Partitions: []int32{p}, Isolation: iso, Start: record.Offsets{{Topic: fl.source, Partition: p}: from},
	})
}

// offsetsOf returns the committed offsets of a group without members, for the mirror's topics.
func (f *Forward) offsetsOf(ctx context.Context, id string) (record.Offsets, error) {
	info, err := f.source.Group(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("mirror %q: source: %w", f.cfg.ID, err)
	}
	if len(info.Members) > 0 {
		return nil, fmt.Errorf("mirror %q: source: group %s: %w", f.cfg.ID, id, ErrGroupBusy)
	}
	var tps []record.TopicPartition
	for _, fl := range f.flows {
		for p := range fl.reached {
			tps = append(tps, record.TopicPartition{Topic: fl.source, Partition: int32(p)})
		}
	}
	committed, unstable, err := f.source.FetchStableOffsets(ctx, id, tps)
	switch {
	case err != nil:
		return nil, fmt.Errorf("mirror %q: source: offsets of group %s: %w", f.cfg.ID, id, err)
	case len(unstable) > 0: // a transaction with offsets is open
		return nil, fmt.Errorf("mirror %q: source: group %s: %w", f.cfg.ID, id, ErrGroupBusy)
	}
	found := record.Offsets{}
	for tp, at := range committed {
		if at.Offset >= 0 {
			found[tp] = at.Offset
		}
	}
	return found, nil
}

// checkAtTarget returns an error if the group has members or other offsets at the target.
func (f *Forward) checkAtTarget(ctx context.Context, id string, to record.Offsets) error {
	info, err := f.target.Group(ctx, id)
	switch {
	case errors.Is(err, group.ErrGroupNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("mirror %q: target: %w", f.cfg.ID, err)
	case len(info.Members) > 0:
		return fmt.Errorf("mirror %q: target: group %s: %w", f.cfg.ID, id, ErrGroupBusy)
	}
	for tp, offset := range to {
		if has, ok := info.Offsets[tp]; ok && has.Offset >= 0 && has.Offset != offset {
			return fmt.Errorf("mirror %q: group %s: %w: %s-%d is at %d, and would be at %d", f.cfg.ID, id, ErrGroupHasOffsets, tp.Topic, tp.Partition, has.Offset, offset)
		}
	}
	return nil
}

func (f *Forward) commitAtTarget(ctx context.Context, id string, to record.Offsets) error {
	if len(to) == 0 {
		return nil
	}
	req := group.CommitRequest{Group: id, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}
	for tp, offset := range to {
		req.Offsets[tp] = record.Committed{Offset: offset, LeaderEpoch: -1}
	}
	per, err := f.target.CommitOffsets(ctx, req)
	for _, one := range per {
		err = errors.Join(err, one)
	}
	if err != nil {
		return fmt.Errorf("mirror %q: target: commit offsets of group %s: %w", f.cfg.ID, id, err)
	}
	return nil
}
