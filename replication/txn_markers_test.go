package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
)

// writeMarkers returns the results of commit markers of producer 7, one for each partition.
func writeMarkers(c *Cluster, path NetworkPath, stop chan struct{}, tps ...tp) []error {
	markers := make([]TxnMarker, len(tps))
	for i, tp := range tps {
		id, _ := c.TopicID(tp.Topic)
		markers[i] = TxnMarker{tp, id, partition.TxnMarker{ProducerID: 7, Commit: true, Version: 2}}
	}
	type answer struct {
		i   int
		err error
	}
	answers, errs := make(chan answer, 2*len(tps)), make([]error, len(tps))
	c.WriteTxnMarkers(path, markers, stop, func(i int, err error) { answers <- answer{i, err} })
	for range tps {
		a := <-answers
		errs[a.i] = a.err
	}
	return errs
}

func TestMarkersAreWrittenByWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThreePatient(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}, {2, 3, 1}, {1, 3, 2}}, Properties: properties("min.insync.replicas", "2")}))
		end := func(p int32) int64 { return c.Status("orders", p).HighWatermark }

		errs := writeMarkers(c, NetworkPath{From: 3, To: 1}, nil, at("orders", 0), at("orders", 1), at("orders", 2), at("orders", 3), at("none", 0))
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], ErrNotLeader)
		require.NoError(t, errs[2])
		require.ErrorIs(t, errs[3], ErrUnknownTopic)
		require.ErrorIs(t, errs[4], ErrUnknownTopic)
		require.NoError(t, writeMarkers(c, NetworkPath{From: 1, To: 1}, nil, at("orders", 0))[0], "to itself")
		require.Equal(t, []int64{2, 0, 1}, []int64{end(0), end(1), end(2)})
		require.Equal(t, map[int32]int64{1: 2, 2: 2, 3: 2}, c.Status("orders", 0).Ends, "on all replicas")

		// The markers have the id of a deleted topic with the same name.
		old, _ := c.TopicID("orders")
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		replicated(t, c, "orders", 1)
		leader := c.Leader("orders", 0)
		done := make(chan error, 1)
		c.WriteTxnMarkers(NetworkPath{From: leader, To: leader}, []TxnMarker{{at("orders", 0), old, partition.TxnMarker{}}}, nil, func(_ int, err error) { done <- err })
		require.ErrorIs(t, <-done, ErrUnknownTopic)
		_, _, err := c.LeaderOfTopic(at("orders", 0), old)
		require.ErrorIs(t, err, ErrUnknownTopic)
		id, _ := c.TopicID("orders")
		got, epoch, err := c.LeaderOfTopic(at("orders", 0), id)
		require.NoError(t, err)
		require.Equal(t, []int32{leader, 0}, []int32{got, epoch})
		require.Zero(t, end(0))
	})
}

// Broker 3 has no replica, so only the coordinator uses the paths to and from it.
func TestMarkersGoOverTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThreePatient(t)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2}}, Properties: properties("min.insync.replicas", "2")}))
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		there, back := NetworkPath{From: 3, To: 1}, NetworkPath{From: 1, To: 3}
		end := func() int64 { return c.Status("orders", 0).LogEndOffset }

		c.Network().Cut(there)
		require.ErrorIs(t, writeMarkers(c, there, nil, at("orders", 0))[0], ErrUnreachable)
		require.Equal(t, int64(1), end())
		c.Network().Mend(there)
		synctest.Wait()

		before := end()
		answered := make(chan []error, 1)
		c.Network().Pause(there)
		go func() { answered <- writeMarkers(c, there, nil, at("orders", 0)) }()
		synctest.Wait()
		require.Equal(t, before, end(), "it is under way")
		c.Network().Mend(there)
		require.NoError(t, (<-answered)[0])
		require.Equal(t, before+1, end())

		// The response is lost.
		c.Network().Pause(back)
		go func() { answered <- writeMarkers(c, there, nil, at("orders", 0)) }()
		synctest.Wait()
		require.Empty(t, answered)
		c.Network().Cut(back)
		require.ErrorIs(t, (<-answered)[0], ErrUnreachable)
		require.Equal(t, before+2, end(), "and yet it is written")
		c.Network().Mend(back)

		// The caller stops waiting.
		stop := make(chan struct{})
		c.Network().Pause(there)
		go func() { answered <- writeMarkers(c, there, stop, at("orders", 0)) }()
		synctest.Wait()
		close(stop)
		require.ErrorIs(t, (<-answered)[0], ErrUnreachable)
		c.Network().Mend(there)

		// The response comes when the marker is safe.
		require.NoError(t, c.KillBroker(2))
		go func() { answered <- writeMarkers(c, there, nil, at("orders", 0)) }()
		synctest.Wait()
		require.Empty(t, answered)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, (<-answered)[0])
		require.Equal(t, map[int32]int64{1: before + 3, 2: before + 3}, c.Status("orders", 0).Ends)
	})
}
