package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// Kafka: auto.leader.rebalance.enable, leader.imbalance.check.interval.seconds.
func TestPreferredReplicasLeadAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		properties map[string]string
		interval   time.Duration // 0: never
	}{
		"by default": {nil, 5 * time.Minute},
		"sooner":     {map[string]string{"leader.imbalance.check.interval.seconds": "10"}, 10 * time.Second},
		"never":      {map[string]string{"auto.leader.rebalance.enable": "false"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := newDisks(3).config()
				cfg.Properties = tt.properties
				c := openWith(t, cfg)
				createReplicated(t, c, []int32{2, 1}, "a", "b")
				require.False(t, c.balance.Armed(), "there is nothing to be balanced")
				leaders := func() []int32 { return []int32{c.Leader("a", 0), c.Leader("b", 0)} }
				toLeader := NetworkPath{From: 2, To: 1}
				c.Network().Cut(toLeader)
				require.NoError(t, c.StopBroker(t.Context(), 2))
				require.NoError(t, c.StartBroker(t.Context(), 2))
				require.Equal(t, []int32{1, 1}, leaders())
				time.Sleep(tt.interval)
				synctest.Wait()
				require.Equal(t, []int32{1, 1}, leaders(), "who is not in sync does not lead")
				c.Network().Mend(toLeader)
				inSync(t, c, at("a", 0), 2)
				inSync(t, c, at("b", 0), 2)
				require.Equal(t, []int32{1, 1}, leaders())
				if tt.interval == 0 {
					time.Sleep(20 * time.Minute)
					synctest.Wait()
					require.Equal(t, []int32{1, 1}, leaders())
					return
				}
				time.Sleep(tt.interval)
				synctest.Wait()
				require.Equal(t, []int32{2, 2}, leaders())
				require.False(t, c.balance.Armed(), "there is nothing left to be balanced")
			})
		})
	}
}

func TestBalanceIsRefusedInOtherWords(t *testing.T) {
	for key, value := range map[string]string{"auto.leader.rebalance.enable": "maybe", "leader.imbalance.check.interval.seconds": "0"} {
		cfg := newDisks(1).config()
		cfg.Properties = map[string]string{key: value}
		_, err := Open(cfg)
		require.ErrorContains(t, err, key)
	}
}
