package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
)

// A link is a member's connection to the brokers. While it is frozen its calls wait, like those of
// a stopped process.
type link struct {
	consumer.Backend
	mu     sync.Mutex
	thawed chan struct{} // closed by thaw; nil: not frozen
}

// OpenSession implements consumer.Opener. Elsewhere the member gets connections of its own; in the
// process all members share the cluster.
func (l *link) OpenSession(ctx context.Context, s consumer.Session) (consumer.LogBackend, func(), error) {
	opener, ok := l.Backend.(consumer.Opener)
	if !ok {
		return &session{l.Backend, l}, func() {}, nil
	}
	b, end, err := opener.OpenSession(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	own, ok := b.(consumer.Backend)
	if !ok {
		end()
		return nil, nil, fmt.Errorf("%T is no backend of group members", b)
	}
	return &session{own, l}, end, nil
}

// A session is the backend of a link's member.
type session struct {
	consumer.Backend
	link *link
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thawed == nil {
		l.thawed = make(chan struct{})
	}
}

func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thawed != nil {
		close(l.thawed)
		l.thawed = nil
	}
}

// pass returns at once, or when the link is thawed.
func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	thawed := l.thawed
	l.mu.Unlock()
	if thawed == nil {
		return nil
	}
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	if err := s.link.pass(ctx); err != nil {
		return err
	}
	return s.Backend.Heartbeat(ctx, req)
}

func (s *session) Join(ctx context.Context, req group.JoinRequest) (resp group.JoinResponse, err error) {
	if err := s.link.pass(ctx); err != nil {
		return resp, err
	}
	return s.Backend.Join(ctx, req)
}

func (s *session) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	if err := s.link.pass(ctx); err != nil {
		return nil, err
	}
	return s.Backend.Fetch(ctx, req)
}
