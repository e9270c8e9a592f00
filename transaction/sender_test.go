package transaction

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction/internal/lifecycle"
)

// A sending is a sender whose calls the test answers. It notes the events that the machine
// receives.
type sending struct {
	*testing.T
	*sender

	mu      sync.Mutex
	leaders map[tp]int32
	calls   []*sentCall
	over    map[coordinator.ShardID]bool
	told    []string
	counted []*lifecycle.Markers
}

// A sentCall is a call of WriteTxnMarkers.
type sentCall struct {
	path    replication.NetworkPath
	markers []replication.TxnMarker
	done    func(int, error)
	block   chan struct{} // the call returns when it is closed; nil: at once
}

func (s *sending) InitProducerID(context.Context) (int64, int16, error) { panic("not asked for") }
func (s *sending) WaitMetadata(context.Context, int64) (int64, error)   { panic("not asked for") }
func (s *sending) TopicID(name string) (topic.ID, bool)                 { return topic.ID{1}, name != "gone" }
func (s *sending) OpenTransactions(time.Duration) []replication.OpenTransaction {
	panic("not asked for")
}
func (s *sending) isOver(id coordinator.ShardID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[id]
}
func (s *sending) LeaderOfTopic(of tp, _ topic.ID) (int32, int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leader, ok := s.leaders[of]; ok {
		return leader, 0, nil
	}
	return -1, 0, replication.ErrUnknownTopic
}

func (s *sending) WriteTxnMarkers(path replication.NetworkPath, markers []replication.TxnMarker, stop <-chan struct{}, done func(int, error)) {
	c := &sentCall{path, markers, done, nil}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	if path.To == slow {
		c.block = make(chan struct{})
	}
	s.mu.Unlock()
	if c.block != nil {
		select {
		case <-c.block:
		case <-stop:
		}
	}
}

// slow is a broker whose calls block until the test ends them.
const slow = 9

func (s *sending) tell(to coordinator.ShardID, id string, ev lifecycle.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := ev.(lifecycle.EventMarked)
	s.counted = append(s.counted, m.Markers)
	s.told = append(s.told, fmt.Sprintf("%s of %s in %d/%d: %v", m.Markers.ID, id, to.Partition, to.Epoch, m.Partitions))
}

// calling reports whether there was a call since the last take.
func (s *sending) calling() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0
}

// take returns the only call since the last take.
func (s *sending) take() *sentCall {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(s, s.calls, 1)
	c := s.calls[0]
	s.calls = nil
	return c
}

// expect checks the events that the machine received since the last expect, and that no call is
// under way.
func (s *sending) expect(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(s, s.calls)
	slices.Sort(s.told)
	require.Equal(s, want, s.told)
	s.told = nil
}

func (s *sending) lead(of tp, broker int32) {
	s.mu.Lock()
	s.leaders[of] = broker
	s.mu.Unlock()
	s.again()
}

func inSending(t *testing.T, test func(s *sending)) {
	synctest.Test(t, func(t *testing.T) {
		s := &sending{T: t, leaders: map[tp]int32{a0: 1, a1: 1, b0: 2}, over: map[coordinator.ShardID]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		s.sender = newSender(ctx, s, s)
		test(s)
		s.close(cancel)
		cancel()
	})
}

var shard7 = coordinator.ShardID{Partition: 7, Leadership: coordinator.Leadership{Broker: 3, Epoch: 5}}

func markersOf(id string, tps ...tp) *lifecycle.Markers {
	return &lifecycle.Markers{ID: id, ProducerID: 1, Epoch: 2, Commit: true, Version: 2, Partitions: tps}
}

func TestMarkersThatAreDueToOneBrokerGoInOneCall(t *testing.T) {
	inSending(t, func(s *sending) {
		s.lead(b0, 1)
		s.owe(shard7, markersOf("x", a0))
		first := s.take() // while it is under way, further markers are owed
		require.Equal(s, replication.NetworkPath{From: 3, To: 1}, first.path)
		require.Equal(s, []replication.TxnMarker{{Partition: a0, TopicID: topic.ID{1}, TxnMarker: partition.TxnMarker{
			ProducerID: 1, ProducerEpoch: 2, CoordinatorEpoch: 5, Commit: true, Version: 2}}}, first.markers)
		s.lead(a0, slow)
		s.owe(shard7, markersOf("y", a0))
		blocked := s.take()
		s.owe(shard7, markersOf("z", a0))
		s.owe(shard7, markersOf("z2", a0))
		s.expect() // they wait for the path
		s.owe(shard7, markersOf("w", a1))
		s.take().done(0, nil)
		s.expect("w of w in 7/5: [{a 1}]") // and do not delay other markers
		close(blocked.block)
		blocked.done(0, nil)
		rest := s.take()
		require.Len(s, rest.markers, 2)
		close(rest.block)
		rest.done(0, nil)
		rest.done(1, nil)
		first.done(0, nil)
		s.expect("x of x in 7/5: [{a 0}]", "y of y in 7/5: [{a 0}]", "z of z in 7/5: [{a 0}]", "z2 of z2 in 7/5: [{a 0}]")
		require.Empty(s, s.owed)
		require.Empty(s, s.due)
	})
}

// Checklist row 72: an orderly end waits for markers that can be written, but not for long.
func TestSenderThatClosesWaitsForMarkersThatAreUnderWay(t *testing.T) {
	closing := func(s *sending) (stop context.Context) {
		stop, cancel := context.WithCancel(s.Context())
		go s.close(cancel)
		synctest.Wait()
		return stop
	}
	inSending(t, func(s *sending) {
		s.lead(b0, -1)
		s.owe(shard7, markersOf("w", b0)) // late, and close does not wait for it
		s.owe(shard7, markersOf("x", a0))
		first := s.take()
		s.owe(shard7, markersOf("y", a1))
		second := s.take()
		stop := closing(s)
		s.owe(shard7, markersOf("z", a0)) // its producer has no answer yet
		s.lead(b0, 1)
		first.done(0, nil)
		synctest.Wait()
		require.NoError(s, stop.Err())
		second.done(0, errLost)
		synctest.Wait()
		require.Error(s, stop.Err())
		s.expect("x of x in 7/5: [{a 0}]")
	})
	inSending(t, func(s *sending) {
		s.owe(shard7, markersOf("x", a0))
		s.take()
		began := time.Now()
		<-closing(s).Done()
		require.Equal(s, lastMarkers, time.Since(began), "the disk hangs")
	})
}

func TestMarkersFollowTheLeaderOfTheirPartition(t *testing.T) {
	inSending(t, func(s *sending) {
		s.lead(a0, -1)
		s.owe(shard7, markersOf("x", a0))
		s.expect()
		s.lead(a0, 2)
		c := s.take()
		require.Equal(s, int32(2), c.path.To)
		s.lead(a0, 1)
		s.expect() // it is not answered yet
		c.done(0, replication.ErrNotLeader)
		time.Sleep(4 * firstMarkerPause)
		c = s.take()
		require.Equal(s, int32(1), c.path.To)
		began, n := time.Now(), 0
		for ; time.Since(began) < time.Minute; n++ { // its disk fails
			c.done(0, errLost)
			for !s.calling() {
				time.Sleep(time.Millisecond)
			}
			c = s.take()
		}
		require.InDelta(s, 66, n, 4, "less and less often")
		c.done(0, nil)
		s.expect("x of x in 7/5: [{a 0}]")
	})
}

func TestMarkersAreGivenUpWhereTheyAreOfNoUse(t *testing.T) {
	for _, err := range []error{partition.ErrInvalidProducerEpoch, partition.ErrCoordinatorFenced, replication.ErrUnknownTopic} {
		inSending(t, func(s *sending) {
			s.owe(shard7, markersOf("x", a0))
			s.take().done(0, err)
			s.expect("x of x in 7/5: [{a 0}]")
			s.owe(shard7, markersOf("x", tp{Topic: "gone"}))
			s.expect("x of x in 7/5: [{gone 0}]")
			require.Equal(s, int64(2), s.counts.givenUp.Load())
		})
	}
}

// A former coordinator sends no markers, and does not delay its successor.
func TestMarkersOfACoordinatorThatIsNoneAnyMoreAreNotSent(t *testing.T) {
	inSending(t, func(s *sending) {
		next := coordinator.ShardID{Partition: 7, Leadership: coordinator.Leadership{Broker: 1, Epoch: 6}}
		s.lead(a0, -1)
		s.owe(shard7, markersOf("x", a0))
		s.mu.Lock()
		s.over[shard7] = true
		s.mu.Unlock()
		s.owe(next, markersOf("x", a0))
		s.lead(a0, 1)
		c := s.take()
		require.Equal(s, replication.NetworkPath{From: 1, To: 1}, c.path)
		require.Equal(s, int32(6), c.markers[0].CoordinatorEpoch)
		c.done(0, nil)
		s.expect("x of x in 7/6: [{a 0}]")
		require.Empty(s, s.owed)
	})
}

// Before version 2 a machine that was loaded again could have a late marker. It could end the next
// transaction, if it arrived after the counted marker.
func TestNoMarkerIsUnderWayWhenAnotherOneIsCounted(t *testing.T) {
	inSending(t, func(s *sending) {
		s.owe(shard7, markersOf("x", a0))
		first := s.take()
		again := markersOf("x", a0)
		s.owe(shard7, again)
		s.expect() // the first marker is still under way, whatever its broker
		s.lead(a0, 2)
		s.expect()
		first.done(0, nil) // the machine no longer waits for it
		second := s.take()
		require.Equal(s, int32(2), second.path.To)
		second.done(0, nil)
		s.expect("x of x in 7/5: [{a 0}]")
		require.Same(s, again, s.counted[0], "it is the one that the machine waits for")

		// the pause after a failure does not lead to a second call
		s.owe(shard7, markersOf("x", a0))
		s.take().done(0, errLost)
		s.owe(shard7, again)
		s.expect()
		time.Sleep(longestMarkerPause)
		s.take().done(0, nil)
		s.expect("x of x in 7/5: [{a 0}]")
		require.Empty(s, s.owed)
	})
}
