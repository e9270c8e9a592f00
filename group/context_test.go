package group

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

func TestEveryBlockingCallEndsWithItsContext(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), map[string]int32{"t": 1}).start()
		waitGroup(t, c, StableWith(1))
		generation, _ := a.state()
		for _, group := range []string{"o1", "o2", "o3"} {
			commit(t, c, commitOf(group, record.Offsets{{Topic: "t"}: 1}))
		}
		blocked := make(chan struct{})
		store.with(func(f *fakeStore) { f.blocked = blocked })
		defer a.kill()
		defer close(blocked)
		tp := record.TopicPartition{Topic: "t"}
		mine := commitOf("g", record.Offsets{tp: 1})
		mine.MemberID, mine.Generation = a.memberID(), generation
		calls := map[string]func(ctx context.Context) error{
			"commit": func(ctx context.Context) error { _, err := c.CommitOffsets(ctx, mine); return err },
			"reset":  func(ctx context.Context) error { return c.ResetOffsets(ctx, "o1", record.Offsets{tp: 2}) },
			"delete": func(ctx context.Context) error { return c.DeleteGroup(ctx, "o2") },
			"delete offsets": func(ctx context.Context) error {
				_, err := c.DeleteOffsets(ctx, "o3", tp)
				return err
			},
			"join": func(ctx context.Context) error {
				_, err := c.Join(ctx, JoinRequest{Group: "new", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
				return err
			},
			"wait": func(ctx context.Context) error { _, err := c.WaitGroup(ctx, "g", StableWith(9)); return err },
		}
		for name, call := range calls {
			short, cancel := context.WithTimeout(ctx, time.Second)
			begin := time.Now()
			err := call(short)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, time.Second, time.Since(begin), name)
		}
		// Behind a write that hangs: readers see only committed state.
		for name, call := range map[string]func(ctx context.Context) error{
			"fetch": func(ctx context.Context) error { _, err := c.FetchOffsets(ctx, "g", nil); return err },
			"group": func(ctx context.Context) error { _, err := c.Group(ctx, "g"); return err },
			"sync": func(ctx context.Context) error {
				_, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: a.memberID(), Generation: generation})
				return err
			},
			"leave": func(ctx context.Context) error {
				_, err := c.Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{{MemberID: a.memberID()}}})
				return err
			},
		} {
			short, cancel := context.WithTimeout(ctx, time.Second)
			require.ErrorIs(t, call(short), context.DeadlineExceeded, name)
			cancel()
		}
	})
}
