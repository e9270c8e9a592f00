package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// slowly opens a cluster and writes to all its partitions once. From then on every sync of the
// disk takes a second.
func slowly(t *testing.T, partitions int) *producer.Producer {
	disk := vfs.Mem()
	c := openCluster(t, strata.Config{FS: disk}, partitions)
	p, err := producer.New(over(t, c), producer.Config{BatchBytes: 1 << 10})
	require.NoError(t, err)
	for i := range partitions {
		_, err := p.Send(t.Context(), record.String("a", "", "first").To(int32(i)))
		require.NoError(t, err)
	}
	disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: time.Second})
	return p
}

func TestSendToManyPartitionsWaitsForOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowly(t, 4) // the number of files that the directory syncs at once
		var rs []record.Record
		for i := range 4 {
			rs = append(rs, record.String("a", "", "x").To(int32(i)))
		}
		begun := time.Now()
		_, err := p.Send(t.Context(), rs...)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))

		begun = time.Now()
		for _, r := range rs {
			p.SendAsync(t.Context(), r, nil)
		}
		require.Zero(t, time.Since(begun))
		require.NoError(t, p.Flush(t.Context()))
		require.Equal(t, time.Second, time.Since(begun))
		require.NoError(t, p.Close())
	})
}

func TestBatchesThatWaitForTheDiskShareItsNextSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slowly(t, 1)
		begun := time.Now()
		value := make([]byte, 600) // a record fills a batch
		for range 5 {              // in flight at once
			p.SendAsync(t.Context(), record.Record{Topic: "a", Value: value}, nil)
		}
		require.NoError(t, p.Flush(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 2*time.Second, "the first batch, and all others together")
		require.NoError(t, p.Close())
	})
}
