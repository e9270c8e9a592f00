package consumer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// losesJoins is a backend that loses join requests or their answers.
type losesJoins struct {
	consumer.Backend
	// number of answers to lose; the request after the last one waits for its context
	answers  atomic.Int32
	requests atomic.Bool   // true: requests are lost
	lost     chan struct{} // receives a value for each lost answer; capacity 10
}

func (l *losesJoins) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	if l.requests.Load() {
		return group.JoinResponse{}, errors.New("connection refused")
	}
	resp, err := l.Backend.Join(ctx, req)
	if err == nil && l.answers.Load() > 0 {
		l.answers.Add(-1)
		l.lost <- struct{}{}
		return group.JoinResponse{}, errors.New("connection reset")
	}
	return resp, err
}

// ownEnds returns the end offsets of m's partitions, which have n records each.
func ownEnds(m *member, n int64) record.Offsets {
	ends := record.Offsets{}
	for _, tp := range m.Assignment() {
		ends[tp] = n
	}
	return ends
}

func TestCloseAfterALostJoinAnswerKeepsItsCommit(t *testing.T) {
	for name, before := range map[string]int{"of the group's leader": 0, "of another member": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
				for p := range int32(4) {
					fill(t, b, p, 5)
				}
				ms := join(t, b, before)
				l := &losesJoins{Backend: b, lost: make(chan struct{}, 10)}
				cfg := config(consumer.CommitProcessed)
				cfg.CommitInterval = time.Hour
				m := poll(t, open(t, l, cfg), nil)
				time.Sleep(20 * time.Second)
				ms = append(ms, join(t, b, 1-before)...)
				want := ownEnds(m, 5)
				require.Len(t, want, 2)
				for p := range int32(4) {
					fill(t, b, p, 2)
				}
				time.Sleep(time.Second)
				want = ownEnds(m, 7)
				l.answers.Store(1)
				m.EnforceRebalance()
				<-l.lost
				// Wait until the group's leader has sent its assignments. Before that, another
				// join makes the leader join again at once, and a request without a generation
				// learns one from that join.
				synctest.Wait()
				begun := time.Now()
				require.NoError(t, m.Close())
				// Close does not wait until other members notice a rebalance. Their heartbeats are
				// due at the moment at which it would give up, so the order of the two is chance.
				require.Less(t, time.Since(begun), time.Second)
				got := committed(t, b, "g")
				for tp, offset := range want {
					require.Equal(t, offset, got[tp], "%v", tp)
				}
				for _, m := range ms {
					m.leave(t)
				}
			})
		})
	}
}

// The group is in a generation that the member has not learned, and the member keeps its
// partitions.
func TestCommitAfterALostJoinAnswerWaitsForTheNextOne(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		fill(t, b, 1, 5)
		l := &losesJoins{Backend: b, lost: make(chan struct{}, 10)}
		m := poll(t, open(t, l, config(consumer.CommitManual)), nil)
		time.Sleep(20 * time.Second)
		ms := join(t, b, 1)
		require.Len(t, m.Assignment(), 1)
		own := m.Assignment()[0]
		l.answers.Store(1)
		m.EnforceRebalance()
		<-l.lost
		require.NoError(t, m.CommitOffsets(t.Context(), record.Offsets{own: 3}))
		require.Equal(t, int64(3), committed(t, b, "g")[own])
		m.leave(t)
		ms[0].leave(t)
	})
}

// A static member stays in the group without joining. Other members may have received its
// partitions and read further.
func TestStaticMemberThatMissedAGenerationHoldsNothingOfTheOneBefore(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		for p := range int32(4) {
			fill(t, b, p, 5)
		}
		l := &losesJoins{Backend: b}
		cfg := config(consumer.CommitManual)
		cfg.InstanceID, cfg.RebalanceTimeout = "i", 10*time.Second
		var lost []record.TopicPartition
		cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) { lost = append(lost, tps...) }
		m := poll(t, open(t, l, cfg), nil)
		time.Sleep(20 * time.Second)
		held := m.Assignment()
		require.Len(t, held, 4)
		l.requests.Store(true)
		m.EnforceRebalance()
		time.Sleep(time.Second)
		cfg = config(consumer.CommitProcessed)
		cfg.RebalanceTimeout = 10 * time.Second
		other := poll(t, open(t, b, cfg), nil)
		time.Sleep(15 * time.Second) // the generation without it has begun, and waits for its sync
		l.requests.Store(false)
		time.Sleep(time.Minute)
		requireOneOwnerEach(t, 4, m.Consumer, other.Consumer)
		require.Equal(t, held, lost)
		m.leave(t)
		other.leave(t)
	})
}
