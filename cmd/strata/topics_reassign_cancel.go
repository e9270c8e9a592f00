package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// cancelReassign ends the reassignments of topics that are in progress. Without names it takes all
// topics, internal ones only if internal is set.
func (a *app) cancelReassign(ctx context.Context, tg *target, ask asker, names []string, internal, dry bool) error {
	ctx, stop := tg.bounded(ctx)
	defer stop()
	if len(names) > 0 {
		m, err := ask.admin.Metadata(ctx, names...)
		if err != nil {
			return needing("describe the topics", names, err)
		}
		for _, t := range m.Topics.Sorted() {
			if t.Err != nil {
				return fmt.Errorf("%s: %w", t.Topic, t.Err)
			}
		}
	}
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, ask.client) // of all topics
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return needing("describe the cluster", nil, err)
	}
	moves := map[partitionOf]moveLine{}
	var req kadm.AlterPartitionAssignmentsReq
	for _, t := range resp.Topics {
		if len(names) > 0 && !slices.Contains(names, t.Topic) || len(names) == 0 && topic.IsInternal(t.Topic) && !internal {
			continue
		}
		for _, p := range t.Partitions {
			before := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.AddingReplicas, id) })
			moves[partitionOf{t.Topic, p.Partition}] = moveLine{"cancelled", t.Topic, p.Partition, p.Replicas, before}
			req.CancelAssign(t.Topic, p.Partition)
		}
	}
	cancelled, errs := 0, []error(nil)
	if dry {
		for _, p := range sortedMoves(moves) {
			errs = append(errs, a.emit(p))
		}
		return errors.Join(append(errs, a.emit(cancelledLine{"cancelled", len(moves), true}))...)
	}
	rs, err := ask.admin.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return needing("alter the cluster", nil, err)
	}
	for _, r := range rs.Sorted() {
		switch {
		case errors.Is(r.Err, kerr.NoReassignmentInProgress), errors.Is(r.Err, kerr.UnknownTopicOrPartition):
			// it has been completed, or its topic deleted, since the list
		case r.Err != nil:
			errs = append(errs, withMessage(fmt.Sprintf("%s-%d", r.Topic, r.Partition), r.Err, r.ErrMessage))
		default:
			cancelled++
			errs = append(errs, a.emit(moves[partitionOf{r.Topic, r.Partition}]))
		}
	}
	return errors.Join(append(errs, a.emit(cancelledLine{"cancelled", cancelled, false}))...)
}

func sortedMoves(moves map[partitionOf]moveLine) (all []moveLine) {
	for _, m := range moves {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b moveLine) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

type cancelledLine struct {
	Type       string `json:"type"`
	Partitions int    `json:"partitions"`
	DryRun     bool   `json:"dryRun"` // nothing was changed
}

func (l cancelledLine) writeText(w io.Writer) {
	if l.DryRun {
		fmt.Fprintf(w, "%d reassignments to cancel, nothing is changed\n", l.Partitions)
		return
	}
	fmt.Fprintf(w, "%d reassignments cancelled\n", l.Partitions)
}
