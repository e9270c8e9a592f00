package main

import (
	"context"
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

func (l *link) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Backend.Heartbeat(ctx, req)
}

func (l *link) Join(ctx context.Context, req group.JoinRequest) (resp group.JoinResponse, err error) {
	if err := l.pass(ctx); err != nil {
		return resp, err
	}
	return l.Backend.Join(ctx, req)
}

func (l *link) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.Backend.Fetch(ctx, req)
}
