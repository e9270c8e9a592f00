package link

import (
	"context"
	"errors"
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
	read time.Time  // of the last response, or the end of a pause of throttling
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

// note stores the outcome of a request, or of a connection that failed. The end of one call's
// context is no reason for another one.
func (s *silence) note(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); err == nil && now.After(s.read) {
		s.read = now
	}
	s.err = err
}

// since returns the time for which no broker has responded, at most since began, and the error of
// the last connection.
func (s *silence) since(began time.Time) (silent time.Duration, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read.After(began) {
		began = s.read
	}
	return time.Since(began), s.err
}

// bound calls request. It returns when that has returned, ctx ends, or no broker has responded for
// the time of patience. The error is then of the last connection. Package kgo does
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
			silent, last := c.silence.since(began)
			if silent >= patience {
				return nil, silentError{patience, last}
			}
			t.Reset(patience - silent)
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
