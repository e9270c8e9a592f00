package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The broker that coordinates the group is killed, which loses its unsynced data, or stopped, and
// is started again, over and over.
func TestGroupsSurviveTheDeathOfTheirBroker(t *testing.T) {
	const coordinator = 2
	m := &moves{seen: map[string]int{}}
	var brokers *replication.Cluster
	m.move = func(s *storm) {
		end := func() error { return brokers.KillBroker(coordinator) }
		if s.rnd.IntN(3) == 0 {
			end = func() error { return brokers.StopBroker(ctx, coordinator) }
		}
		require.NoError(t, end())
		time.Sleep(time.Duration(s.rnd.IntN(4000)*s.rnd.IntN(2)) * time.Millisecond)
		require.NoError(t, brokers.StartBroker(ctx, coordinator))
	}
	m.end = func(*storm) {}
	m.run(t, seeds(30), func(seed int) {
		disk := vfs.Mem()
		wrong := runStormOn(t, stormAssignors[seed%3], uint64(seed), 60, m, func(t *testing.T) (Store, func()) {
			var err error
			brokers, err = replication.Open(replication.Config{Dir: "data", FS: vfs.Mem(), Brokers: coordinator,
				BrokerSpecs: map[int32]replication.BrokerSpec{coordinator: {FS: disk}}})
			require.NoError(t, err)
			for name, n := range map[string]int{"t": 6, "u": 3} {
				require.NoError(t, brokers.CreateTopic(ctx, name, topic.Config{Partitions: n}))
			}
			placed := topic.Config{Assignment: [][]int32{{coordinator}}, Properties: offsetsTopicProperties}
			require.NoError(t, brokers.EnsureTopic(ctx, "__consumer_offsets", placed))
			disk.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: 50 * time.Millisecond})
			return ClusterStore(brokers), func() {
				synctest.Wait()
				require.NoError(t, brokers.Close())
			}
		})
		require.Empty(t, wrong, "seed %d", seed)
	})
}
