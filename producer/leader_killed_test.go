package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A leader is killed between the append of a batch and its acknowledgement, and stays away until
// the batch expires. The batch is in the log. The next batch must not get its sequence number. The
// leader would take it for a duplicate, acknowledge it and drop it.
func TestBatchThatALostLeaderMayHaveKeepsItsSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 2, BrokerSpecs: map[int32]replication.BrokerSpec{2: {FS: disk}}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.CreateTopic(t.Context(), "a", topic.Config{Assignment: [][]int32{{2}}}))
		p, err := producer.New(over(t, c), producer.Config{DeliveryTimeout: 10 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		_, err = p.Send(t.Context(), record.String("a", "", "first"))
		require.NoError(t, err)
		mend := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Hour})
		result := make(chan error, 1)
		p.SendAsync(t.Context(), record.String("a", "", "given up"), func(_ record.Record, err error) { result <- err })
		synctest.Wait()
		require.NoError(t, c.KillBroker(2))
		err = <-result
		require.ErrorIs(t, err, producer.ErrTimeout)
		require.ErrorContains(t, err, "may be in the log")
		mend()
		require.NoError(t, c.StartBroker(t.Context(), 2))
		sent, err := p.Send(t.Context(), record.String("a", "", "acknowledged"))
		require.NoError(t, err)
		require.Equal(t, int64(2), sent[0].Offset)
		require.Equal(t, []string{"first", "given up", "acknowledged"}, allValues(t, c, "a"))
	})
}

func allValues(t *testing.T, c *strata.Cluster, name string) (vs []string) {
	t.Helper()
	resp, err := c.Fetch(t.Context(), &partition.FetchRequest{Partitions: []partition.FetchPartition{
		{TopicPartition: record.TopicPartition{Topic: name}, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1},
	}})
	require.NoError(t, err)
	require.NoError(t, resp.Partitions[0].Err)
	for rest := resp.Partitions[0].Bytes; len(rest) > 0; {
		b, n, err := record.Parse(rest)
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			vs = append(vs, string(r.Value))
		}
		rest = rest[n:]
	}
	return vs
}
