package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
)

// unheard is a backend that loses the answers to membership requests while away is set. The
// requests arrive, so the coordinator still has its members afterwards.
type unheard struct {
	consumer.Backend
	away atomic.Bool
}

func (b *unheard) Heartbeat(ctx context.Context, r group.HeartbeatRequest) error {
	err := b.Backend.Heartbeat(ctx, r)
	if b.away.Load() {
		return group.ErrCoordinatorNotAvailable
	}
	return err
}

func (b *unheard) Join(ctx context.Context, r group.JoinRequest) (group.JoinResponse, error) {
	if b.away.Load() {
		return group.JoinResponse{}, group.ErrCoordinatorNotAvailable
	}
	return b.Backend.Join(ctx, r)
}

// The coordinator does not answer for longer than a session. The member gives its partitions up,
// since other members may have them. It joins again under its id at the first answer: under
// another id it would wait until its own former session ends.
func TestMemberThatHeardNothingForASessionIsBackUnderItsID(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		w := &unheard{Backend: b}
		m := poll(t, open(t, w, config(consumer.CommitProcessed)), nil)
		before, err := b.WaitGroup(t.Context(), "g", group.StableWith(1))
		require.NoError(t, err)
		w.away.Store(true)
		time.Sleep(consumer.DefaultSessionTimeout + 2*consumer.DefaultHeartbeatInterval)
		require.Empty(t, m.Assignment(), "others may have its partitions")
		w.away.Store(false)
		time.Sleep(5 * time.Second)
		require.Len(t, m.Assignment(), 2)
		after, err := b.Group(t.Context(), "g")
		require.NoError(t, err)
		require.Len(t, after.Members, 1)
		require.Equal(t, before.Members[0].ID, after.Members[0].ID)
		m.leave(t)
	})
}
