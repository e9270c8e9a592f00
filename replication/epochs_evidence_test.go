package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// TestEachWrongBitOfLeaderEpochsLosesNothingInSilence is the model for leader-epoch-checkpoint, in
// which one flipped bit can turn a digit into another.
func TestEachWrongBitOfLeaderEpochsLosesNothingInSilence(t *testing.T) {
	look, cases := sample.Fewer(t, 8), 0
	for _, brokers := range []int{1, 3} {
		for _, end := range []string{"closed", "killed"} {
			var now disks
			synctest.Test(t, func(t *testing.T) { now, _ = evidenceWorld(t, brokers, end, 0) })
			for broker := 1; broker <= min(brokers, 2); broker++ {
				name := fmt.Sprintf("data/broker-%d/orders-1/leader-epoch-checkpoint", broker)
				content, err := vfs.ReadFile(now[broker-1], name)
				require.NoError(t, err)
				for bit := range 8 * len(content) {
					if cases++; !look(cases - 1) {
						continue
					}
					t.Run(fmt.Sprintf("%d brokers, %s, at %d, bit %d", brokers, end, broker, bit), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							ds := now.kill()
							require.NoError(t, rewrite(ds[broker-1], name, func(p []byte) []byte {
								p[bit/8] ^= 1 << (bit % 8)
								return p
							}))
							requireNothingLostInSilence(t, ds, brokers)
						})
					})
				}
			}
		}
	}
}

// changeOften makes the metadata log longer than the logs of partitions.
func changeOften(t *testing.T, c *Cluster) {
	for i := range 40 {
		require.NoError(t, c.AlterTopicConfig(t.Context(), "orders", ConfigChange{Key: "segment.ms", Value: fmt.Sprint(1000 + i)}))
	}
}

// TestLogOfAnotherInAPartitionsPlaceIsNotServed puts another log, which no file names, in the
// place of a replica. The undamaged replicas keep their records. The partition is served when its
// own log is put back.
func TestLogOfAnotherInAPartitionsPlaceIsNotServed(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		for _, end := range []string{"closed", "killed", "cut off"} {
			for _, other := range []string{"__cluster_metadata-0", "orders-1"} {
				t.Run(fmt.Sprintf("%d brokers, %s, %s", brokers, end, other), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ds, _ := evidenceWorld(t, brokers, end, 0, changeOften)
						whole := ds.kill()
						require.NoError(t, putTree(ds[0], ds[0], "data/broker-1/"+other, "data/broker-1/orders-0"))
						require.NoError(t, ds[0].RemoveAll("data/broker-1/orders-0/"+partitionMetadataFile))
						what := requireNothingLostInSilence(t, ds, brokers)
						require.Equal(t, brokers == 1, isAway(what), what)
						require.NoError(t, putTree(whole[0], ds[0], "data/broker-1/orders-0", "data/broker-1/orders-0"))
						what = requireNothingLostInSilence(t, ds, brokers)
						require.False(t, isAway(what), what)
					})
				})
			}
		}
	}
}
