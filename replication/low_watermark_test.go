package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// deleteBefore deletes records of a partition and returns the new start.
func deleteBefore(ctx context.Context, c *Cluster, tp tp, before int64) (int64, error) {
	starts, err := c.DeleteRecords(ctx, map[record.TopicPartition]int64{tp: before})
	return starts[tp], err
}

// Deleted records stay deleted when the leader and a follower are killed, whichever follower leads
// next.
func TestDeletedRecordsStayDeletedAtTheNextLeader(t *testing.T) {
	for _, next := range []int32{1, 2} { // which follower leads next
		synctest.Test(t, func(t *testing.T) {
			c, _ := openThree(t)
			replicated(t, c, "orders", 1)
			tp := at("orders", 0)
			for range 5 {
				require.NoError(t, all(c, tp, "a", "b", "c").Err)
			}
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start, err := deleteBefore(ctx, c, tp, 7)
			require.NoError(t, err)
			require.EqualValues(t, 7, start)
			require.Equal(t, begin, time.Now(), "followers hear at once")
			leader := c.Leader("orders", 0)
			other := (leader+2-next)%3 + 1
			require.NoError(t, c.KillBroker(other))
			require.NoError(t, c.KillBroker(leader))
			require.NotEqual(t, leader, c.Leader("orders", 0))
			require.EqualValues(t, 7, c.Status("orders", 0).LogStartOffset)
			start, err = deleteBefore(t.Context(), c, tp, 2)
			require.NoError(t, err)
			require.EqualValues(t, 7, start)
		})
	}
}

// DeleteRecords waits for a follower that is cut off, until the caller's context ends or the
// follower's broker is killed.
func TestDeletionWaitsForFollowersThatLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a", "b", "c").Err)
		leader := c.Leader("orders", 0)
		lost := leader%3 + 1
		c.Network().Cut(NetworkPath{From: leader, To: lost})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := deleteBefore(ctx, c, tp, 2)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 2, c.Status("orders", 0).LogStartOffset, "the leader's stays where it is")

		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := deleteBefore(ctx, c, tp, 3)
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		require.NoError(t, c.KillBroker(lost))
		require.NoError(t, <-done)
	})
}

// DeleteRecords ends when its leader is killed or the cluster is closed.
func TestDeletionEndsWithItsLeader(t *testing.T) {
	for how, end := range map[string]func(c *Cluster, leader int32) error{
		"killed": func(c *Cluster, leader int32) error { return c.KillBroker(leader) },
		"closed": func(c *Cluster, _ int32) error { return c.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openThree(t)
				replicated(t, c, "orders", 1)
				require.NoError(t, all(c, at("orders", 0), "a", "b", "c").Err)
				leader := c.Leader("orders", 0)
				c.Network().Cut(NetworkPath{From: leader, To: leader%3 + 1})
				done := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					_, err := deleteBefore(ctx, c, at("orders", 0), 2)
					done <- err
				}()
				synctest.Wait()
				require.Empty(t, done)
				require.NoError(t, end(c, leader))
				want := map[string]error{"killed": ErrNotLeader, "closed": ErrClosed}[how]
				require.ErrorIs(t, <-done, want)
			})
		})
	}
}

// A follower whose disk hangs is fenced, even if only a deletion waits for it.
func TestDeletionFindsOutWhoseDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		tp := at("orders", 0)
		require.NoError(t, all(c, tp, "a", "b", "c").Err)
		hung := c.Leader("orders", 0)%3 + 1
		defer ds.hang(hung, 0, "")()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := deleteBefore(ctx, c, tp, 2)
		require.NoError(t, err)
		require.Equal(t, 18*time.Second, time.Since(begin), "the suspicion, and the silence")
	})
}
