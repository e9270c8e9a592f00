package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

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

// Cutover moves groups to the target. It calls Drain, and then commits the offsets of each group at
// the target, for the same records: the group continues there with the record that it would have
// read next at the source. It returns the offsets at the target.
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
// No offset is committed unless those of all groups have been translated. After an error Cutover
// may be called again. Errors are those of Drain and the ones above, group.ErrGroupNotFound, and
// ErrGap for a group whose next record the source has deleted.
func (f *Forward) Cutover(ctx context.Context, groups ...string) (moved map[string]record.Offsets, err error) {
	if len(groups) == 0 {
		return nil, fmt.Errorf("mirror %q: %w", f.cfg.ID, configError("groups", "", "no group is named"))
	}
	err = f.alone(func() error {
		if err := f.run(ctx, true); err != nil {
			return err
		}
		moved, err = f.move(ctx, groups)
		return err
	})
	return moved, err
}

// move translates and commits the offsets of groups.
func (f *Forward) move(ctx context.Context, groups []string) (map[string]record.Offsets, error) {
	before, err := f.sourceEnds(ctx)
	if err != nil {
		return nil, err
	}
	offsets, moved := map[string]record.Offsets{}, map[string]record.Offsets{}
	for _, id := range groups {
		if offsets[id], err = f.offsetsOf(ctx, id); err != nil {
			return nil, err
		}
		if moved[id], err = f.translateAll(ctx, id, offsets[id], before); err != nil {
			return nil, err
		}
		if err := f.checkAtTarget(ctx, id, moved[id]); err != nil {
			return nil, err
		}
	}
	for _, id := range groups {
		again, err := f.offsetsOf(ctx, id)
		if err != nil {
			return nil, err
		}
		for tp, offset := range again {
			if offsets[id][tp] != offset {
				return nil, fmt.Errorf("mirror %q: group %s: %w", f.cfg.ID, id, ErrGroupBusy)
			}
		}
	}
	if _, err := f.sourceEnds(ctx); err != nil {
		return nil, err
	}
	for _, id := range groups {
		if err := f.commitAtTarget(ctx, id, moved[id]); err != nil {
			return nil, err
		}
	}
	return moved, nil
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

// translateAll translates the offsets of a group.
func (f *Forward) translateAll(ctx context.Context, id string, at record.Offsets, ends map[string][]int64) (record.Offsets, error) {
	to := record.Offsets{}
	for _, fl := range f.flows {
		for p := range fl.reached {
			from, ok := at[record.TopicPartition{Topic: fl.source, Partition: int32(p)}]
			if !ok {
				continue
			}
			offset, err := f.translate(ctx, fl, int32(p), from, ends[fl.source][p])
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", id, err)
			}
			to[record.TopicPartition{Topic: fl.target, Partition: int32(p)}] = offset
		}
	}
	return to, nil
}

// translate returns the offset at the target of the first committed record of the source from an
// offset on, or the end if there is none.
func (f *Forward) translate(ctx context.Context, fl *flow, p int32, from, end int64) (int64, error) {
	if from > end {
		return 0, f.stop(fl.source, p, from, fmt.Errorf("%w: the source ends at offset %d", ErrTruncated, end))
	}
	start, err := offsetOf(ctx, f.source, record.TopicPartition{Topic: fl.source, Partition: p}, partition.Earliest, partition.ReadCommitted)
	switch {
	case err != nil:
		return 0, err
	case from < start:
		return 0, f.gap(fl.source, p, from, start)
	}
	n := 0
	for _, err := range f.readSource(ctx, fl, p, from, partition.ReadCommitted) {
		if err != nil {
			return 0, err
		}
		if n++; n > MaxTranslated {
			return 0, fmt.Errorf("mirror %q: %s-%d at offset %d: %w", f.cfg.ID, fl.source, p, from, ErrTooFarBehind)
		}
	}
	tp := record.TopicPartition{Topic: fl.target, Partition: p}
	// Markers of the last transaction are written after its commit is decided.
	if err := f.awaitStable(ctx, tp); err != nil {
		return 0, err
	}
	if n == 0 {
		return offsetOf(ctx, f.target, tp, partition.Latest, partition.ReadCommitted)
	}
	next, stop := iter.Pull2(f.readSource(ctx, fl, p, from, partition.ReadCommitted))
	defer stop()
	first := int64(-1)
	for r, err := range consumer.Read(ctx, f.target, consumer.ReadConfig{Topic: fl.target, Partitions: []int32{p}, Last: n}) {
		if err != nil {
			return 0, err
		}
		want, err, ok := next()
		switch {
		case err != nil:
			return 0, err
		case !ok || !equal(&want, &r):
			return 0, f.stop(fl.target, p, -1, fmt.Errorf("%w: offset %d", ErrDiffers, r.Offset))
		case first < 0:
			first = r.Offset
		}
	}
	if _, err, more := next(); err != nil || more {
		return 0, errors.Join(err, f.stop(fl.target, p, -1, fmt.Errorf("%w: it has fewer than %d", ErrDiffers, n)))
	}
	return first, nil
}

// equal reports whether the target has a record as the source has it.
func equal(a, b *record.Record) bool {
	if !same(a.Key, b.Key) || !same(a.Value, b.Value) || !a.Timestamp.Equal(b.Timestamp) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

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
