package link

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// silence ends requests when no broker has responded to any request for a while. Package kgo bounds
// each of its attempts, and begins no other one after a while, but several may follow each other.
type silence struct {
	patience time.Duration

	mu   sync.Mutex // guards the fields below
	read time.Time  // of the last response, or the end of the pause that a broker has asked for
	err  error      // of the last connection that failed, or was cut; nil: none since read
}

var (
	_ kgo.HookBrokerConnect  = (*silence)(nil)
	_ kgo.HookBrokerRead     = (*silence)(nil)
	_ kgo.HookBrokerThrottle = (*silence)(nil)
)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (s *silence) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		s.note(fmt.Errorf("unable to connect: %w", err))
	}
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (s *silence) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	s.note(err)
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle: the next request waits.
func (s *silence) OnBrokerThrottle(_ kgo.BrokerMetadata, pause time.Duration, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = time.Now().Add(pause)
}

// note stores the outcome of a request, or of a connection that failed.
func (s *silence) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); err == nil && now.After(s.read) {
		s.read = now
	}
	s.err = err
}

// since reports whether no broker has responded since a time, and the error of the last connection.
func (s *silence) since(t time.Time) (silent bool, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.read.After(t), s.err
}

// bound calls request. It returns when that has returned, ctx ends, or no broker has responded since
// the call for the time of patience. The error is then that of the last connection. Package kgo does
// not return while it makes a connection.
func (c *Client) bound(ctx context.Context, request func(context.Context) (kmsg.Response, error)) (kmsg.Response, error) {
	began, patience := time.Now(), c.silence.patience
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan result, 1)
	if !c.spawn(func() {
		resp, err := request(ctx)
		got <- result{resp, err}
	}) {
		return nil, kgo.ErrClientClosed
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		select {
		case r := <-got:
			return r.resp, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.C:
			if silent, last := c.silence.since(began); silent {
				return nil, silentError{patience, last}
			}
		}
	}
}

// A silentError is the reason why a request has ended.
type silentError struct {
	patience time.Duration
	last     error // of a connection; nil: none has failed
}

func (e silentError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("no broker has responded for %v", e.patience)
	}
	return fmt.Sprintf("no broker has responded for %v: %v", e.patience, e.last)
}

func (e silentError) Unwrap() error { return e.last }
