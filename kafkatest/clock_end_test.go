package kafkatest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// networksAndClocks are the ways to run a server.
var networksAndClocks = map[string]Config{"tcp": {}, "pipe": {Pipe: true}, "clock": {Clock: true}, "clock and pipe": {Clock: true, Pipe: true}}

// The state of a server can be read after its end, with and without a clock of its own.
func TestServerAnswersWhenItHasEnded(t *testing.T) {
	for name, cfg := range networksAndClocks {
		t.Run(name, func(t *testing.T) {
			cfg.TLS, cfg.Topics = true, map[string]int{"orders": 1}
			var s *Server
			var produced *Injected
			var link *Link
			var last time.Time
			t.Run("its test", func(t *testing.T) {
				s = New(t, cfg)
				produced = s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Hold: true})
				link = s.Around(1)
				if cfg.Clock {
					s.Advance(time.Hour)
				}
				last = s.Now()
			})
			addrs := s.Addrs()
			require.Equal(t, []string{s.Addr(1)}, addrs)
			require.Equal(t, int32(-1), s.Leader("orders", 0))
			require.Empty(t, s.Requests())
			require.False(t, s.Now().Before(last), "its time goes on")
			require.Less(t, s.Now().Sub(last), time.Minute)
			_, err := s.Dial(t.Context(), "tcp", addrs[0])
			require.ErrorContains(t, err, "connection refused")
			_, err = s.DialTLS(s.TLS("alice"))(t.Context(), "tcp", addrs[0])
			require.ErrorContains(t, err, "connection refused")
			s.Observe(func(*kafka.Exchange) {})()
			require.Empty(t, s.WaitRequests(0, Answered(kafka.Produce)))
			produced.Wait(0)
			require.Zero(t, produced.Hits())
			late := s.Fault(Fault{APIs: []kafka.Key{kafka.Fetch}, Hold: true})
			for _, fault := range []*Injected{produced, late} {
				fault.Release()
				fault.Remove()
			}
			link.Cut()
			link.Mend()
			s.Around(1).Cut()
			require.NoError(t, s.WaitUntil(t.Context(), func() bool { return true }))
			require.ErrorIs(t, s.WaitUntil(t.Context(), func() bool { return false }), errOver, "nothing will change")
		})
	}
}

// A call that needs brokers fails at once after the end of the server, and starts none.
func TestServerThatHasEndedIsNotStartedAgain(t *testing.T) {
	for name, call := range map[string]func(*Server){
		"Topic":        func(s *Server) { s.Topic("orders") },
		"Fill":         func(s *Server) { s.Fill("orders", record.String("orders", "", "paid")) },
		"WaitRecords":  func(s *Server) { s.WaitRecords("orders", 1) },
		"WaitGroup":    func(s *Server) { s.WaitGroup("g", func(group.Info) bool { return true }) },
		"WaitISR":      func(s *Server) { s.WaitISR("orders", 0, 1) },
		"Coordinator":  func(s *Server) { s.Coordinator("g") },
		"WaitRequests": func(s *Server) { s.WaitRequests(1, Answered(kafka.Produce)) },
		"Inside":       func(s *Server) { s.Inside(context.Background(), func(context.Context, *strata.Cluster) {}) },
		"Restart":      (*Server).Restart,
		"StartBroker":  func(s *Server) { s.StartBroker(1) },
		"AddBroker":    func(s *Server) { s.AddBroker("") },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeT{}
			var s *Server
			require.Empty(t, f.run(func() { s = New(f, Config{Pipe: true, Topics: map[string]int{"orders": 1}}) }))
			began := time.Now()
			require.Contains(t, f.run(func() { call(s) }), "the test of this Server has ended")
			require.Less(t, time.Since(began), defaultWait)
			require.Nil(t, leaked(s.label))
		})
	}
}

// A wait for a server ends with the server's test, and does not fail.
func TestWaitsUnderWayEndWithTheTest(t *testing.T) {
	for name, cfg := range networksAndClocks {
		t.Run(name, func(t *testing.T) {
			var under sync.WaitGroup
			t.Run("its test", func(t *testing.T) {
				s, begun := New(t, cfg), make(chan struct{}, 100)
				for range 3 {
					under.Go(func() {
						err := s.WaitUntil(context.Background(), func() bool { begun <- struct{}{}; return false })
						if !errors.Is(err, errOver) {
							t.Errorf("WaitUntil returns %v", err)
						}
					})
					<-begun
				}
				under.Go(func() {
					s.Inside(t.Context(), func(ctx context.Context, _ *strata.Cluster) {
						begun <- struct{}{}
						<-ctx.Done()
					})
				})
				<-begun
			})
			under.Wait()
			require.False(t, t.Failed())
		})
	}
}

// The bubble exists until the last wait in it has returned.
func TestBubbleStaysUntilWhoWaitsHasLeft(t *testing.T) {
	left := make(chan error, 1)
	t.Run("its test", func(t *testing.T) {
		s, begun := New(t, Config{Clock: true}), make(chan struct{})
		go func() {
			left <- s.WaitUntil(context.Background(), func() bool {
				close(begun)
				<-t.Context().Done()
				select {
				case <-s.clock.over:
				case <-time.After(50 * time.Millisecond): // not reached
				}
				return true
			})
		}()
		<-begun
	})
	require.NoError(t, <-left)
}

// Code inside belongs to the caller's test, even if another test made the server.
func TestTestsEndInsideAsElsewhere(t *testing.T) {
	for name, cfg := range networksAndClocks {
		s := New(t, cfg)
		t.Run(name, func(t *testing.T) {
			var skipped *testing.T
			t.Run("skipped", func(t *testing.T) {
				skipped = t
				s.Inside(t.Context(), func(context.Context, *strata.Cluster) { t.SkipNow() })
				t.Error("it goes on")
			})
			require.True(t, skipped.Skipped())
			ended := make(chan bool)
			go func() {
				defer close(ended)
				s.Inside(context.Background(), func(context.Context, *strata.Cluster) { runtime.Goexit() })
				ended <- true
			}()
			require.False(t, <-ended, "the caller's goroutine ends")
		})
		require.False(t, t.Failed())
	}
}
