package strata

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
)

// shares creates the coordinator of share groups when it is first needed. It implements
// group.ShareStates: that coordinator keeps the states of share-partitions.
type shares struct {
	brokers *replication.Cluster
	cfg     share.Config

	mu     sync.Mutex // guards the fields below
	c      *share.Coordinator
	closed bool
}

// coordinator returns the coordinator, and creates it if there is none.
func (s *shares) coordinator() (*share.Coordinator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, share.ErrClosed
	}
	if s.c == nil {
		made, err := share.NewCoordinator(s.brokers, s.cfg)
		if err != nil {
			return nil, fmt.Errorf("shares: %w", err)
		}
		s.c = made
	}
	return s.c, nil
}

func (s *shares) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.c == nil {
		return nil
	}
	return s.c.Close()
}

// statesAtOnce bounds the states of share-partitions that are created or deleted concurrently.
const statesAtOnce = 64

// Begin implements group.ShareStates.
func (s *shares) Begin(ctx context.Context, id string, topics []offsets.ShareStatesTopic) error {
	err := s.each(ctx, id, topics, (*share.Coordinator).BeginState)
	if errors.Is(err, share.ErrFull) {
		err = fmt.Errorf("%w: %w", group.ErrGroupMaxSize, err)
	}
	return err
}

// Delete implements group.ShareStates.
func (s *shares) Delete(ctx context.Context, group string, topics []offsets.ShareStatesTopic) error {
	return s.each(ctx, group, topics, (*share.Coordinator).DeleteState)
}

// Reset implements group.ShareStates.
func (s *shares) Reset(ctx context.Context, id string, p group.SharePartition, start int64) error {
	c, err := s.coordinator()
	if err != nil {
		return err
	}
	return c.ResetState(ctx, share.Key{Group: id, TopicID: p.TopicID, Partition: p.Partition}, start)
}

// each calls f for every partition.
func (s *shares) each(ctx context.Context, group string, topics []offsets.ShareStatesTopic, f func(*share.Coordinator, context.Context, share.Key) error) error {
	c, err := s.coordinator()
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
