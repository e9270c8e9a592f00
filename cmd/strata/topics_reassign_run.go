package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
)

// A reassigning is one run of topics reassign.
type reassigning struct {
	tg      *target
	ask     asker
	ids     map[string]kadm.TopicID // of the topics of the plan; zero for brokers before Kafka 2.8
	deleted map[string]bool         // topics that were deleted meanwhile
}

// present returns the changes of topics that were not deleted.
func (r *reassigning) present(moves []moveLine) []moveLine {
	return slices.DeleteFunc(slices.Clone(moves), func(m moveLine) bool { return r.deleted[m.Topic] })
}

// deletedError returns an error that names the topics that were deleted, nil if none was.
func (r *reassigning) deletedError() error {
	if len(r.deleted) == 0 {
		return nil
	}
	return fmt.Errorf("%s: deleted during the reassignment: %w", strings.Join(slices.Sorted(maps.Keys(r.deleted)), ", "), kerr.UnknownTopicOrPartition)
}

// needing adds the missing right to err if err is a lack of it.
func needing(right string, names []string, err error) error {
	err = named(err, names)
	if auth, ok := errors.AsType[*kadm.AuthError](err); ok {
		err = auth.Err
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("no right to %s: %w", right, err)
	}
	return err
}

// emptyCluster returns an error if a cluster without visible topics may have topics that the
// principal may not describe: brokers leave them out of the list.
func emptyCluster(ctx context.Context, tg *target, c *conn) error {
	_, err := listACLs(ctx, tg, c, acl.Everything())
	if err == nil || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return errors.New("no topics: the cluster has none, or there is no right to describe them")
	}
	return nil // no authorizer
}

// together starts the changes, waits until all of them are complete, and elects the preferred
// leaders. It calls progress with the number of partitions that are not complete.
func (r *reassigning) together(ctx context.Context, moves []moveLine, progress func(left int)) error {
	tg, ask := r.tg, r.ask
	set := kadm.TopicsSet{}
	var req kadm.AlterPartitionAssignmentsReq
	for _, m := range moves {
		set.Add(m.Topic, m.Partition)
		req.Assign(m.Topic, m.Partition, m.After)
	}
	if err := r.start(ctx, req); err != nil {
		return err
	}
	before, since := -1, time.Now() // the last progress
	for {
		left, err := underReassignment(ctx, tg, ask.admin, set)
		if err != nil {
			return fmt.Errorf("the cluster continues the reassignment; its progress is unknown: %w", err)
		}
		if left == 0 {
			break
		}
		progress(left)
		if left != before {
			before, since = left, time.Now()
		} else if time.Since(since) >= reassignPatience {
			if err := replicasRun(ctx, tg, ask.client, moves); err != nil {
				return fmt.Errorf("%d partitions are not complete: %w", left, err)
			}
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster continues the reassignment of %d partitions: %w", left, context.Cause(ctx))
		case <-time.After(reassignPause):
		}
	}
	if err := r.confirm(ctx, moves); err != nil {
		return err
	}
	for name := range r.deleted {
		delete(set, name)
	}
	return electPreferred(ctx, tg, ask.admin, set)
}

// reassignPatience is the time without progress after which a reassignment looks for brokers that
// have stopped.
const reassignPatience = 10 * time.Second

// replicasRun returns an error if a broker that gets replicas does not run.
func replicasRun(ctx context.Context, tg *target, client *kgo.Client, moves []moveLine) error {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, m := range moves {
		for _, id := range m.After {
			if !slices.ContainsFunc(resp.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == id }) {
				return fmt.Errorf("broker %d does not run; the cluster continues the reassignment when it does: %w", id, kerr.ReplicaNotAvailable)
			}
		}
	}
	return nil
}

func (r *reassigning) start(ctx context.Context, req kadm.AlterPartitionAssignmentsReq) error {
	ctx, cancel := r.tg.bounded(ctx)
	defer cancel()
	rs, err := r.ask.admin.AlterPartitionAssignments(ctx, req)
	if err != nil {
		return needing("alter the cluster", nil, err)
	}
	var errs []error
	for _, p := range rs.Sorted() {
		switch {
		case errors.Is(p.Err, kerr.UnknownTopicOrPartition):
			r.deleted[p.Topic] = true
		case p.Err != nil:
			errs = append(errs, withMessage(fmt.Sprintf("%s-%d", p.Topic, p.Partition), p.Err, p.ErrMessage))
		}
	}
	return errors.Join(errs...)
}

// underReassignment returns how many of the partitions are still being reassigned.
func underReassignment(ctx context.Context, tg *target, admin *kadm.Client, set kadm.TopicsSet) (left int, err error) {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	rs, err := admin.ListPartitionReassignments(ctx, set)
	if err != nil {
		return 0, err
	}
	return len(rs.Sorted()), nil
}

// confirm waits until the metadata show the new replicas, because other brokers than the
// controller may be behind. It returns an error for a partition with other replicas: its
// reassignment was cancelled or replaced. Deleted topics are only noted.
func (r *reassigning) confirm(ctx context.Context, moves []moveLine) error {
	ctx, cancel := r.tg.bounded(ctx)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, m := range moves {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(m.Topic)
		if n := len(req.Topics); n == 0 || *req.Topics[n-1].Topic != m.Topic {
			req.Topics = append(req.Topics, t)
		}
	}
	for {
		resp, err := req.RequestWith(ctx, r.ask.client) // not by kadm, whose metadata may be 5 s old
		if err != nil {
			return err
		}
		r.noteDeleted(resp)
		wrong, now := notReassigned(resp, r.present(moves))
		if wrong == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			why := "another client has changed them"
			if slices.Equal(now, wrong.Before) {
				why = "another client has cancelled it"
			}
			return fmt.Errorf("%s-%d has replicas %v after the reassignment to %v: %s", wrong.Topic, wrong.Partition, now, wrong.After, why)
		case <-time.After(reassignPause):
		}
	}
}

// noteDeleted notes the topics that do not exist any more, or were made again.
func (r *reassigning) noteDeleted(resp *kmsg.MetadataResponse) {
	for _, t := range resp.Topics {
		if t.Topic != nil && (errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.UnknownTopicOrPartition) || t.ErrorCode == 0 && kadm.TopicID(t.TopicID) != r.ids[*t.Topic]) {
			r.deleted[*t.Topic] = true
		}
	}
}

// notReassigned returns a change that the metadata do not show, and the replicas that they show
// instead; nil if they show all changes.
func notReassigned(resp *kmsg.MetadataResponse, moves []moveLine) (wrong *moveLine, now []int32) {
	replicas := map[string]map[int32][]int32{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		replicas[*t.Topic] = map[int32][]int32{}
		for _, p := range t.Partitions {
			replicas[*t.Topic][p.Partition] = p.Replicas
		}
	}
	for i, m := range moves {
		if now := replicas[m.Topic][m.Partition]; !slices.Equal(now, m.After) {
			return &moves[i], now
		}
	}
	return nil, nil
}

// electPreferred elects the first replica of each partition as its leader.
func electPreferred(ctx context.Context, tg *target, admin *kadm.Client, set kadm.TopicsSet) error {
	ctx, cancel := tg.bounded(ctx)
	defer cancel()
	rs, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	for _, topic := range rs {
		for _, r := range topic {
			if r.Err != nil && !errors.Is(r.Err, kerr.ElectionNotNeeded) {
				return withMessage(fmt.Sprintf("%s-%d", r.Topic, r.Partition), r.Err, r.ErrMessage)
			}
		}
	}
	return nil
}
