package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafka"
)

// A wait for an impossible condition fails the test at once, with the reason.
func TestWaitsInVainFailAtOnce(t *testing.T) {
	produces := Fault{APIs: []kafka.Key{kafka.Produce}, Close: true}
	for says, call := range map[string]func(*Server){
		"WaitISR: of orders-0 no broker: one at least is in sync":                                  func(s *Server) { s.WaitISR("orders", 0) },
		"waiting for [1 3] to be in sync for orders-0: broker 3 has no replica; [1 2] are in sync": func(s *Server) { s.WaitISR("orders", 0, 3, 1) },
		"waiting for the fault to hit 2 requests: it hits 1 (Times)":                               func(s *Server) { s.Fault(produces).Wait(2) },
		"waiting for the fault to hit 1 requests: it was removed; it was about 0 and hit 0": func(s *Server) {
			removed := s.Fault(produces)
			removed.Remove()
			removed.Wait(1)
		},
		"WaitRequests: 4097 requests: 4096 are remembered (Observe sees them all)": func(s *Server) {
			s.WaitRequests(HistorySize+1, Answered(kafka.Produce))
		},
		"Slow: -1s is negative": func(s *Server) { s.Between(1, 2).Slow(-time.Second) },
	} {
		f := &fakeT{}
		began := time.Now()
		require.Contains(t, f.run(func() {
			call(New(f, Config{Pipe: true, Brokers: 3, Replicas: 2, Topics: map[string]int{"orders": 1}}))
		}), "kafkatest: "+says)
		require.Less(t, time.Since(began), defaultWait)
	}
	s := New(t, Config{Pipe: true, Brokers: 2, Replicas: 2, Topics: map[string]int{"orders": 1}})
	s.WaitISR("orders", 0, 2, 1, 1)
	s.Fault(produces).Wait(0)
}

// A wait for a fault ends when the fault is removed.
func TestWaitEndsWhenItsFaultIsRemoved(t *testing.T) {
	f := &fakeT{}
	var fault *Injected
	require.Contains(t, f.run(func() {
		s := New(f, Config{Pipe: true})
		fault = s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Close: true})
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			fault.Remove()
		}()
		defer func() { <-removed }()
		fault.Wait(1)
	}), "waiting for the fault to hit 1 requests: it was removed")
}
