package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// W13
func TestFloodOfProducerIDsIsForgottenWhenTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(vfs.Mem())
		cfg.ProducerIDExpiration = time.Hour
		p := openLeader(t, cfg)
		const ids = 2000
		for pid := range int64(ids) {
			require.NoError(t, send(p, batchSpec{pid: pid + 1}).Err)
		}
		require.Len(t, p.Producers(), ids)
		time.Sleep(40 * time.Minute) // in the bubble
		require.NoError(t, send(p, batchSpec{pid: 7, seq: 1}).Err)
		require.Len(t, p.Producers(), ids, "none has expired")
		time.Sleep(40 * time.Minute)
		require.NoError(t, send(p, batchSpec{pid: ids + 1}).Err)
		var left []int64
		for _, s := range p.Producers() {
			left = append(left, s.ProducerID)
		}
		require.Equal(t, []int64{7, ids + 1}, left, "with who has written in the last hour")
		require.NoError(t, send(p, batchSpec{pid: 7, seq: 2}).Err, "whose sequence goes on")
		require.NoError(t, p.Close())
	})
}
