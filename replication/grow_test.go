package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
)

// openSix opens two brokers in each of three racks.
func openSix(t *testing.T) *Cluster {
	t.Helper()
	cfg := newDisks(6).config()
	for id := range int32(6) {
		spec := cfg.BrokerSpecs[id+1]
		spec.Rack = []string{"a", "b", "c"}[id%3]
		cfg.BrokerSpecs[id+1] = spec
	}
	return openWith(t, cfg)
}

func TestPartitionsThatAreAddedHaveTheTopicsReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openSix(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
			Partitions: 2, ReplicationFactor: 3, Properties: properties("min.insync.replicas", "2"),
		}))
		require.NoError(t, all(c, at("orders", 0), "before").Err)
		require.NoError(t, c.AddPartitions(t.Context(), "orders", 12))
		led := map[int32]int{}
		for p := range int32(12) {
			s := c.Status("orders", p)
			require.Len(t, s.Replicas, 3, "partition %d", p)
			require.ElementsMatch(t, s.Replicas, s.ISR)
			require.Equal(t, s.Replicas[0], s.Leader)
			racks := map[int32]bool{}
			for _, id := range s.Replicas {
				racks[id%3] = true
			}
			require.Len(t, racks, 3, "partition %d is on %v: one in each rack", p, s.Replicas)
			led[s.Leader]++
			require.NoError(t, all(c, at("orders", p), "x").Err)
		}
		require.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2}, led)
		require.Equal(t, []string{"before", "x"}, values(t, c, at("orders", 0)), "what was written stays")

		require.NoError(t, c.AddPartitions(t.Context(), "orders", 14, []int32{6, 1, 2}, []int32{4, 1, 3}))
		require.Equal(t, []int32{6, 1, 2}, c.Status("orders", 12).Replicas)
		require.Equal(t, []int32{4, 1, 3}, c.Status("orders", 13).Replicas)
		require.EqualValues(t, 4, c.Leader("orders", 13))
		for p := range int32(14) {
			require.NoError(t, all(c, at("orders", p), "y").Err)
		}
	})
}

// A partition that is moved has old and new replicas. Added partitions have as many replicas as it
// has after the move.
func TestPartitionsAreAddedWhileTheFirstOneIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openSix(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}}))
		require.NoError(t, all(c, at("orders", 0), "x").Err)
		for to := int32(4); to <= 6; to++ {
			c.Network().Cut(NetworkPath{From: to, To: 1})
		}
		require.NoError(t, errors.Join(c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: at("orders", 0), Replicas: []int32{4, 5, 6}})...))
		require.Len(t, c.Status("orders", 0).Replicas, 6)
		require.ErrorIs(t, c.AddPartitions(t.Context(), "orders", 2, []int32{1, 2, 3, 4, 5, 6}), ErrInvalidAssignment)
		require.NoError(t, c.AddPartitions(t.Context(), "orders", 2, []int32{3, 4, 5}))
		require.NoError(t, c.AddPartitions(t.Context(), "orders", 4))
		for p := int32(1); p < 4; p++ {
			require.Len(t, c.Status("orders", p).Replicas, 3)
		}
	})
}

func TestPartitionsThatCannotBeAddedChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openSix(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1, ReplicationFactor: 3}))
		require.NoError(t, c.StopBroker(t.Context(), 4))
		require.NoError(t, c.StopBroker(t.Context(), 5))
		require.NoError(t, c.StopBroker(t.Context(), 6))
		time.Sleep(time.Minute)
		said := func() string {
			s := fmt.Sprint(c.MetadataVersion(), c.Stats().Partitions)
			for p := range int32(2) {
				s += fmt.Sprintf(" %+v", c.Status("orders", p))
			}
			return s
		}
		before := said()
		for name, bad := range map[string]struct {
			total      int
			assignment [][]int32
			want       error
		}{
			"too few replicas":                     {2, [][]int32{{1, 2}}, ErrInvalidAssignment},
			"too many replicas":                    {2, [][]int32{{1, 2, 3, 4}}, ErrInvalidAssignment},
			"none":                                 {2, [][]int32{{}}, ErrInvalidAssignment},
			"a broker twice":                       {2, [][]int32{{1, 2, 1}}, ErrInvalidAssignment},
			"an unknown broker":                    {2, [][]int32{{1, 2, 9}}, ErrUnknownBroker},
			"an unknown broker, which is an error": {2, [][]int32{{1, 2, 9}}, ErrInvalidAssignment},
			"no broker that serves":                {2, [][]int32{{4, 5, 6}}, ErrInvalidAssignment},
			"another number of partitions":         {3, [][]int32{{1, 2, 3}}, ErrInvalidAssignment},
			"the second one":                       {3, [][]int32{{1, 2, 3}, {1, 1, 3}}, ErrInvalidAssignment},
			"no more than there are":               {1, nil, ErrInvalidPartitions},
			"fewer than there are":                 {0, nil, ErrInvalidPartitions},
		} {
			require.ErrorIs(t, c.AddPartitions(t.Context(), "orders", bad.total, bad.assignment...), bad.want, name)
			require.ErrorIs(t, c.DryRun().AddPartitions(t.Context(), "orders", bad.total, bad.assignment...), bad.want, name)
			require.Equal(t, before, said(), name)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.AddPartitions(ended, "orders", 2), context.Canceled)
		require.Equal(t, before, said())
		require.NoError(t, c.AddPartitions(t.Context(), "orders", 2, []int32{4, 1, 5}), "one of them serves")
		s := c.Status("orders", 1)
		require.Equal(t, []int32{1}, s.ISR)
		require.EqualValues(t, 1, s.Leader)
		require.NoError(t, c.AddPartitions(t.Context(), "orders", 5), "three serve")
		require.True(t, slices.Contains([]int32{1, 2, 3}, c.Leader("orders", 4)))
	})
}
