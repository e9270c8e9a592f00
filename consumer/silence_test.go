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

// unheard is a backend whose answers about membership do not arrive while away is set. The requests
// do: the coordinator knows its members when it is back.
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

// Nobody answers for longer than a session. The member gives its partitions up, since others may
// have them by now, and is back under its id at once when there is an answer: under another one it
// would wait for its own former session to end.
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
