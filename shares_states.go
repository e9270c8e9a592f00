package strata

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/share"
)

// statesAtOnce is how many states of share-partitions are made or deleted at the same time.
const statesAtOnce = 64

// shareStates are the cluster's share-partitions as the coordinator of groups needs them.
type shareStates struct{ c *Cluster }

// Begin implements group.ShareStates.
func (s shareStates) Begin(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error {
	return s.each(ctx, group, topics, (*share.Coordinator).BeginState)
}

// Delete implements group.ShareStates.
func (s shareStates) Delete(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error {
	return s.each(ctx, group, topics, (*share.Coordinator).DeleteState)
}

// Reset implements group.ShareStates.
func (s shareStates) Reset(ctx context.Context, id string, p group.SharePartition, start int64) error {
	c, err := s.c.ShareCoordinator()
	if err != nil {
		return err
	}
	return c.ResetState(ctx, share.Key{Group: id, TopicID: p.TopicID, Partition: p.Partition}, start)
}

// each calls f for every partition.
func (s shareStates) each(ctx context.Context, group string, topics []offsets.ShareStatesTopic, f func(*share.Coordinator, context.Context, share.Key) error) error {
	c, err := s.c.ShareCoordinator()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(statesAtOnce)
	for _, t := range topics {
		for _, p := range t.Partitions {
			g.Go(func() error { return f(c, ctx, share.Key{Group: group, TopicID: t.TopicID, Partition: p}) })
		}
	}
	return g.Wait()
}
