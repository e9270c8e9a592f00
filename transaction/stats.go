package transaction

import (
	"sync/atomic"

	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// Stats are the counters of a Coordinator.
type Stats struct {
	IDs            int // transactional ids at present, in loaded partitions
	Ongoing        int // ids with an open transaction
	Prepared       int // ids whose markers are being written
	MarkersOwed    int
	MarkersSent    int64 // since the start, including repetitions
	MarkersGivenUp int64 // for deleted topics, or partitions with a later epoch or coordinator
	Appends        int64 // batches written to the topic
	AppendFailures int64 // appends not known to be committed: the partition was loaded again
	Loads          int64 // partitions loaded
}

// markerCounts are the counters of a sender.
type markerCounts struct{ sent, givenUp atomic.Int64 }

// Stats returns the present counters. It is safe for concurrent use.
func (s *service) Stats() Stats {
	r := s.runtime.Stats()
	st := Stats{Appends: r.Appends, AppendFailures: r.AppendFailures, Loads: r.Loads,
		MarkersSent: s.sender.counts.sent.Load(), MarkersGivenUp: s.sender.counts.givenUp.Load()}
	s.sender.mu.Lock()
	st.MarkersOwed = len(s.sender.owed)
	s.sender.mu.Unlock()
	for _, sh := range s.runtime.Known() {
		sh.EachLoaded(func(_ string, m *lifecycle.Machine) {
			st.IDs++
			switch state := m.State(); {
			case state == txnlog.Ongoing:
				st.Ongoing++
			case state.Prepared():
				st.Prepared++
			}
		})
	}
	return st
}
