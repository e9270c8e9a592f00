package group

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// A partition is unloaded and loaded again at the moment its timer fires. The late firing does not
// clear the timer that loading arms, so Close does not wait for it.
func TestCloseDoesNotWaitForATimerThatWasArmedWhileItFired(t *testing.T) {
	for range 100 {
		store := newFakeStore(map[string]int32{"t": 1})
		inBubble(t, store, Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
			joined, err := c.Join(ctx, JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 6 * time.Second, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
			require.NoError(t, err)
			_, err = c.Sync(ctx, SyncRequest{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation})
			require.NoError(t, err)
			start := time.Now()
			require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation}))
			store.with(func(f *fakeStore) { f.syncTime, f.appendErr = 6*time.Second, errors.New("disk") })
			// the write fails when the session ends
			go func() { _ = c.ResetOffsets(ctx, "other", record.Offsets{{Topic: "t"}: 1}) }()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			require.NoError(t, c.Close())
			require.Equal(t, 6*time.Second, time.Since(start), "Close waited")
		})
	}
}
