package kafkatest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

const century = 100 * 365 * 24 * time.Hour // takes minutes of real time, if the topic has a record

// busy is a server whose clock has to run the brokers' periodic work all the time.
func busy(t *testing.T, cfg Config) *Server {
	cfg.Clock, cfg.Topics = true, map[string]int{"orders": 1}
	cfg.Defaults.Properties = map[string]string{"retention.ms": "-1"}
	s := New(t, cfg)
	s.Fill("orders", record.String("orders", "", "paid"))
	return s
}

// advancing is a server whose clock a goroutine moves until the test ends. It returns when the
// time has moved by a day.
func advancing(t *testing.T, cfg Config) *Server {
	var under sync.WaitGroup
	t.Cleanup(under.Wait) // the end of the server ends it
	cfg.WaitTimeout = 5 * time.Minute
	s := busy(t, cfg)
	begin := s.Now()
	under.Go(func() { s.Advance(century) })
	for s.Now().Sub(begin) < 24*time.Hour {
	}
	return s
}

// A test can use a server while a goroutine moves its clock for minutes. Waits end with their
// condition, or by real time.
func TestServerCanBeUsedWhileItsClockIsMoved(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		s := advancing(t, cfg)
		before := s.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, s.WaitUntil(ctx, func() bool { return false }), context.DeadlineExceeded)
		require.Less(t, time.Since(began), 10*time.Second)
		s.Fill("orders", record.String("orders", "", "paid again"))
		s.WaitRecords("orders", 2)
		tp := record.TopicPartition{Topic: "orders"}
		committed := make(chan struct{})
		go func() {
			defer close(committed)
			s.WaitGroup("g", func(i group.Info) bool { return i.Offsets[tp].Offset == 1 })
		}()
		s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
			_, err := c.CommitOffsets(ctx, group.CommitRequest{Group: "g", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: 1}}})
			require.NoError(t, err)
		})
		<-committed
		s.Advance(time.Hour)
		require.Greater(t, s.Now().Sub(before), time.Hour)
		require.Equal(t, int32(1), s.Leader("orders", 0))
		require.Less(t, s.Now().Sub(before), century, "and it still is")
	})
}

// A request that a client sends while the clock is moved arrives after the move. It is as if the
// client had been suspended.
func TestClientsAreSuspendedWhileTheClockIsMoved(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		s := New(t, cfg)
		first, second, req := dial(t, s), dial(t, s), kmsg.NewPtrApiVersionsRequest()
		second.ask(req)
		in := s.Fault(Fault{APIs: []kafka.Key{kafka.ApiVersions}, Delay: 30 * time.Minute})
		first.send(req)
		in.Wait(1)
		sent := make(chan time.Time, 1)
		stop := s.Observe(func(*kafka.Exchange) {
			select {
			case sent <- s.Now():
				second.send(req)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_ = s.WaitUntil(ctx, func() bool { return len(s.Requests()) > 2 })
			default:
			}
		})
		defer stop()
		begin := s.Now()
		s.Advance(2 * time.Hour)
		first.receive(req)
		second.receive(req)
		require.Less(t, (<-sent).Sub(begin), time.Hour)
		all := s.Requests()
		require.Len(t, all, 3)
		require.GreaterOrEqual(t, all[2].Received.Sub(begin), 2*time.Hour)
	})
}

// Inside the bubble Advance does not wait for awayGrace.
func TestClockIsMovedInsideWithoutADelay(t *testing.T) {
	s := New(t, Config{Clock: true})
	began := time.Now()
	s.Inside(t.Context(), func(context.Context, *strata.Cluster) {
		before := time.Now()
		for range 50 {
			s.Advance(time.Hour)
		}
		require.GreaterOrEqual(t, time.Since(before), 50*time.Hour)
	})
	require.Less(t, time.Since(began), 50*awayGrace)
}

// A loop that moves the clock until the test ends does not fail.
func TestClockIsMovedUntilTheTestEnds(t *testing.T) {
	var s *Server
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Run("its test", func(t *testing.T) {
		s = New(t, Config{Clock: true})
		begin := s.Now()
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					s.Advance(time.Hour)
				}
			}
		}()
		for s.Now().Sub(begin) < 24*time.Hour {
		}
	})
	s.Advance(time.Hour)
	close(stop)
	<-ended
}
