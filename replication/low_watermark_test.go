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

// What was deleted does not come back with another leader, whoever that is, and though all of them
// lose power.
func TestDeletedRecordsStayDeletedAtTheNextLeader(t *testing.T) {
	for _, next := range []int32{1, 2} { // which of the followers
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

// Who deletes records waits for a follower that the leader does not hear of, until the caller gives
// up or its broker is fenced.
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

// It ends when there is nobody any more who could tell.
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

// A follower whose disk hangs is fenced, though nothing but the deletion asks for it.
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
