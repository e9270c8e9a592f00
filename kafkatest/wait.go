package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

const (
	defaultWait = 30 * time.Second
	virtualWait = 10 * time.Minute // costs nothing, and Kafka's timeouts are minutes
	// deadlineMargin is the time before the test's deadline at which waits fail, so that their
	// message is printed instead of a dump of all goroutines.
	deadlineMargin = time.Second
	// dumped is the number of kinds of successful requests in the message of a failed wait.
	dumped = 30
)

// waitContext returns the context of one wait.
func (s *Server) waitContext() (context.Context, context.CancelFunc) {
	return s.boundedContext(context.Background())
}

// boundedContext returns the context of one wait that ends with parent.
func (s *Server) boundedContext(parent context.Context) (context.Context, context.CancelFunc) {
	if s.host != nil && inBubble() {
		return s.host.boundedContext(parent)
	}
	deadline := time.Now().Add(s.wait)
	if !s.testEnds.IsZero() && s.testEnds.Before(deadline) {
		deadline = s.testEnds
	}
	return context.WithDeadline(parent, deadline)
}

// testDeadline returns the deadline of the test less deadlineMargin; zero if it has none. virtual
// reports whether the test runs in virtual time.
func testDeadline(t T) (ends time.Time, virtual bool) {
	d, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	defer func() {
		// a testing.T in a synctest bubble panics: its deadline is one of real time
		if recover() != nil {
			ends, virtual = time.Time{}, true
		}
	}()
	if ends, ok = d.Deadline(); !ok {
		return time.Time{}, false
	}
	return ends.Add(-deadlineMargin), false
}

// WaitGroup waits until pred returns true for a group, and returns the group. pred is called at
// every change of the group, on this goroutine. The state of a group that does not exist is
// group.Dead. group.StableWith returns the most common predicate.
func (s *Server) WaitGroup(id string, pred func(group.Info) bool) (info group.Info) {
	s.t.Helper()
	if pred == nil {
		s.t.Fatalf("kafkatest: WaitGroup: pred is nil")
	}
	s.within(fmt.Sprintf("WaitGroup(%s)", id), func(s *Server, v *visit) {
		info = s.waitGroup(id, func(i group.Info) (holds bool) {
			v.back(func() { holds = pred(i) })
			return holds
		})
	})
	return info
}

func (s *Server) waitGroup(id string, pred func(group.Info) bool) group.Info {
	ctx, cancel := s.waitContext()
	defer cancel()
	var last group.Info
	info, err := s.Cluster().WaitGroup(ctx, id, func(i group.Info) bool {
		last = i
		return pred(i)
	})
	if err != nil {
		s.t.Fatalf("kafkatest: waiting for group %s: %v; last seen: %s\n%s", id, err, describeGroup(last), s.dump())
	}
	return info
}

// WaitCommitted waits until the committed offset of a group in a partition is at least offset. A
// committed offset is the next one to read.
func (s *Server) WaitCommitted(id string, tp record.TopicPartition, offset int64) {
	s.t.Helper()
	s.within(fmt.Sprintf("WaitCommitted(%s, %s-%d, %d)", id, tp.Topic, tp.Partition, offset), func(s *Server, _ *visit) { s.waitCommitted(id, tp, offset) })
}

func (s *Server) waitCommitted(id string, tp record.TopicPartition, offset int64) {
	ctx, cancel := s.waitContext()
	defer cancel()
	var last group.Info
	_, err := s.Cluster().WaitGroup(ctx, id, func(i group.Info) bool {
		last = i
		o, ok := i.Offsets[tp]
		return ok && o.Offset >= offset
	})
	if err != nil {
		s.t.Fatalf("kafkatest: waiting for group %s to commit %d for %s-%d: %v; last seen: %s\n%s",
			id, offset, tp.Topic, tp.Partition, err, describeGroup(last), s.dump())
	}
}

// Requests returns the last HistorySize requests of clients with their responses, oldest first,
// without records. A request in progress has no Answered time yet. A request without a response has
// an Answered time and a nil Response. Requests and responses are shared and must not be changed.
func (s *Server) Requests() []kafka.Exchange {
	in := s.itself().in
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.history.all()
}

// WaitRequests waits until pred returns true for n of the exchanges that Requests returns,
// including past ones and those in progress, and returns these. pred is called on this goroutine.
// It fails the test at once if n is above HistorySize.
func (s *Server) WaitRequests(n int, pred func(kafka.Exchange) bool) (found []kafka.Exchange) {
	s.t.Helper()
	if n > HistorySize {
		s.t.Fatalf("kafkatest: WaitRequests: %d requests: %d are remembered (Observe sees them all)", n, HistorySize)
	}
	if pred == nil {
		s.t.Fatalf("kafkatest: WaitRequests: pred is nil")
	}
	s.look(fmt.Sprintf("WaitRequests(%d)", n), func(s *Server, v *visit) { found = s.waitRequests(v, n, pred) })
	return found
}

func (s *Server) waitRequests(v *visit, n int, pred func(kafka.Exchange) bool) (found []kafka.Exchange) {
	err := s.await(func() bool {
		found = found[:0]
		all := s.Requests()
		v.back(func() {
			for _, x := range all {
				if pred(x) {
					found = append(found, x)
				}
			}
		})
		return len(found) >= n
	})
	if err != nil {
		s.t.Fatalf("kafkatest: waiting for %d requests: %v; there are %d\n%s", n, err, len(found), s.dump())
	}
	return found
}

// Answered returns a predicate for WaitRequests that matches answered requests of an API.
func Answered(key kafka.Key) func(kafka.Exchange) bool {
	return func(x kafka.Exchange) bool { return kafka.Key(x.Key) == key && x.Response != nil }
}

// Wait waits until the fault has hit n requests. It fails the test at once if the fault cannot hit
// that many, because of its Times or because it was removed.
func (j *Injected) Wait(n int) {
	j.server.t.Helper()
	if most, limited := j.fault.times(); limited && n > most {
		j.server.t.Fatalf("kafkatest: waiting for the fault to hit %d requests: it hits %d (Times)", n, most)
	}
	j.server.look(fmt.Sprintf("Wait(%d) for fault %d", n, j.number), func(s *Server, _ *visit) { s.waitHits(j, n) })
}

func (s *Server) waitHits(j *Injected, n int) {
	removed := false
	err := s.await(func() bool {
		j.in.mu.Lock()
		defer j.in.mu.Unlock()
		removed = j.removed
		return j.hits >= n || removed
	})
	if err != nil || removed {
		j.in.mu.Lock()
		seen, hits := j.seen, j.hits
		j.in.mu.Unlock()
		if hits >= n {
			return
		}
		if removed {
			err = errRemoved
		}
		s.t.Fatalf("kafkatest: waiting for the fault to hit %d requests: %v; it was about %d and hit %d\n%s", n, err, seen, hits, s.dump())
	}
}

// errRemoved ends a wait for a fault.
var errRemoved = errors.New("it was removed")

// await is WaitUntil with the context of a wait.
func (s *Server) await(cond func() bool) error {
	ctx, cancel := s.waitContext()
	defer cancel()
	return s.waitUntil(ctx, cond)
}

// errNilWait is returned for a nil ctx or cond.
var errNilWait = errors.New("kafkatest: WaitUntil: ctx or cond is nil")

// WaitUntil waits until cond returns true, and returns ctx's error if ctx ends first. It is for
// conditions without a wait of their own. cond is called on this goroutine: at once, when a request
// arrives, when a fault hits a request, and when a request is answered. WaitUntil does not fail the
// test, so any goroutine may call it. It returns an error for a nil ctx or cond, and at the end of
// the server's test.
func (s *Server) WaitUntil(ctx context.Context, cond func() bool) (err error) {
	if ctx == nil || cond == nil {
		return errNilWait
	}
	if s.clock == nil {
		return s.waitUntil(ctx, cond)
	}
	s.t.Helper()
	refused := s.clock.visit(func(s *Server, v *visit) {
		inner, cancel := v.context(ctx)
		defer cancel()
		err = s.waitUntil(inner, func() (holds bool) {
			v.back(func() { holds = cond() })
			return holds
		})
	})
	if errors.Is(refused, errOver) {
		return s.clock.server.waitUntil(ctx, cond)
	}
	if refused != nil {
		return refused
	}
	return err
}

func (s *Server) waitUntil(ctx context.Context, cond func() bool) error {
	for {
		s.in.mu.Lock()
		changed, over := s.in.changed, s.in.over
		s.in.mu.Unlock()
		if cond() {
			return nil
		}
		if over {
			return errOver
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dump describes the last requests of clients.
func (s *Server) dump() string {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	return s.in.pace.loops() + s.in.history.dump(dumped, time.Now(), s.topicName)
}

// describeGroup describes a group in a few lines.
func describeGroup(i group.Info) string {
	text := fmt.Sprintf("%v, generation %d, %d members", i.State, i.Generation, len(i.Members))
	for _, m := range i.Members {
		text += fmt.Sprintf("\n  member %s (client %q): %v", m.ID, m.ClientID, m.Assignment)
	}
	for tp, o := range i.Offsets {
		text += fmt.Sprintf("\n  committed %s-%d: %d of %d", tp.Topic, tp.Partition, o.Offset, o.End)
	}
	return text
}
