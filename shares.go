package strata

import (
	"fmt"
	"sync"

	"github.com/stratalog/strata/share"
)

// shares has the coordinator of share groups, from when it is first asked for.
type shares struct {
	cfg share.Config

	mu     sync.Mutex // guards the fields below
	c      *share.Coordinator
	closed bool
}

// ShareCoordinator returns what hands out records to the members of share groups: consumer.NewShare
// asks it. It begins its work when it is first called for; its topic is made when a record is first
// handed out. It must not be closed. It returns share.ErrClosed when the cluster is closed, and
// replication.ErrInvalidReplicationFactor if there are fewer brokers than
// Config.Shares.Topic.Replicas.
func (c *Cluster) ShareCoordinator() (*share.Coordinator, error) {
	s := &c.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, share.ErrClosed
	}
	if s.c == nil {
		made, err := share.NewCoordinator(c.brokers, s.cfg)
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

// Shares is Cluster.ShareCoordinator.
func (b Backend) Shares() (*share.Coordinator, error) { return b.shares() }
