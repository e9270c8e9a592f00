package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// randomThrottle returns a change of one key: of a broker, of all brokers or of the topic.
func randomThrottle(rnd *rand.Rand) string {
	e := rnd.IntN(int(ends))
	if rnd.IntN(3) == 0 {
		list := []string{"", "*", "0:1,0:2", "0:3,0:4"}[rnd.IntN(4)]
		return throttledReplicas[e] + "=" + list
	}
	rate := []string{"", "0", "1000", "100000", "300000", "10000000"}[rnd.IntN(6)]
	return fmt.Sprintf("%d:%s=%s", []int32{AllBrokers, 1, 2, 3, 4}[rnd.IntN(5)], throttledRate[e], rate)
}

// Throttles change at random while replicas move and brokers die. Appends are acknowledged as
// without throttles. When the throttles are lifted, all replicas are in sync, and equal.
func TestThrottlesChangeUnderLoadWhileReplicasMoveAndBrokersDie(t *testing.T) {
	seeds := uint64(20)
	if sample.Hurried() {
		seeds = 4
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 41))
			c, _ := openMany(t, 4)
			tp := at("orders", 0)
			props := properties("min.insync.replicas", "2", throttledReplicas[leading], "*", throttledReplicas[following], "*")
			require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}, ReplicationFactor: 3, Properties: props}))
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan []string, 1)
			go func() {
				var vs []string
				defer func() { written <- vs }()
				filling := strings.Repeat("v", 5_000)
				for i := 0; ctx.Err() == nil; i++ {
					v, begin := fmt.Sprint(i, filling), time.Now()
					r := all(c, tp, v)
					for r.Err != nil {
						if !isMoved(r) {
							t.Errorf("seed %d, record %d: %v", seed, i, r.Err)
							return
						}
						time.Sleep(time.Millisecond)
						r = all(c, tp, v)
					}
					if took := time.Since(begin); took > time.Second {
						t.Errorf("seed %d, record %d is acknowledged after %v", seed, i, took)
					}
					vs = append(vs, v)
					time.Sleep(20 * time.Millisecond)
				}
			}()
			down := int32(0)
			for range 60 {
				time.Sleep(time.Duration(rnd.IntN(800)) * time.Millisecond)
				switch act := rnd.IntN(10); {
				case act < 6:
					throttle(t, c, randomThrottle(rnd))
				case act < 8:
					to := rnd.Perm(4)[:3]
					for i := range to {
						to[i]++
					}
					replicas := []int32{int32(to[0]), int32(to[1]), int32(to[2])}
					require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: replicas})[0], "seed %d", seed)
				case down != 0:
					require.NoError(t, c.StartBroker(t.Context(), down))
					down = 0
				case len(c.Status("orders", 0).ISR) > 2: // so many that two are left
					isr := c.Status("orders", 0).ISR
					down = isr[rnd.IntN(len(isr))]
					require.NoError(t, c.KillBroker(down))
				}
			}
			if down != 0 {
				require.NoError(t, c.StartBroker(t.Context(), down))
			}
			begin := time.Now()
			throttle(t, c, leaderReplicas, followerReplicas)
			require.NoError(t, c.WaitReassigned(t.Context()))
			require.NoError(t, c.WaitISR(t.Context(), tp))
			require.Less(t, time.Since(begin), time.Second, "seed %d", seed)
			stop()
			acked := <-written
			have, i := values(t, c, tp), 0
			for _, v := range have { // a retry after ErrNotLeaderAfterAppend may store it twice
				if i < len(acked) && v == acked[i] {
					i++
				}
			}
			require.Equal(t, len(acked), i, "seed %d: all that was acknowledged, in order", seed)
			synctest.Wait()
			ends := c.Status("orders", 0).Ends
			require.Len(t, ends, 3)
			require.True(t, slices.Max(endsOf(ends)) == slices.Min(endsOf(ends)), "seed %d: %v", seed, ends)
		})
	}
}

func endsOf(ends map[int32]int64) (all []int64) {
	for _, e := range ends {
		all = append(all, e)
	}
	return all
}
