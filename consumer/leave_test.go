package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// leaveWatch is a backend that calls begins when a member's leave request arrives, before the
// group handles it.
type leaveWatch struct {
	consumer.Backend
	begins func()
}

func (w *leaveWatch) Leave(ctx context.Context, req group.LeaveRequest) ([]error, error) {
	w.begins()
	return w.Backend.Leave(ctx, req)
}

func (w *leaveWatch) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	if req.MemberEpoch < 0 {
		w.begins()
	}
	return w.Backend.ConsumerHeartbeat(ctx, req)
}

// While the leave request is under way, other members may get the partitions. By then, a member
// that has not polled for too long holds none of them.
func TestMemberThatDoesNotPollHasNoPartitionsWhenItLeaves(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
		for p := range int32(3) {
			fill(t, b, p, 3)
		}
		var c *consumer.Consumer
		var once sync.Once
		left, held := false, []record.TopicPartition(nil)
		w := &leaveWatch{b, func() { once.Do(func() { left, held = true, c.Assignment() }) }}
		c = open(t, w, config(consumer.CommitManual))
		for _, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			require.Len(t, c.Assignment(), 3)
			time.Sleep(10 * time.Minute) // beyond MaxPollInterval
			break
		}
		require.True(t, left)
		require.Empty(t, held)
		require.NoError(t, c.Close())
	})
}
