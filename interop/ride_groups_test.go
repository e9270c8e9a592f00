package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestJavaGroupsRideThroughKilledBrokers runs three members of a share group, and of a group of
// the newer consumer protocol. Meanwhile the leaders of their partitions and their coordinators
// are killed. Every record is delivered, and no acknowledged or committed record is delivered
// again.
func TestJavaGroupsRideThroughKilledBrokers(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("set STRATA_LONG")
	}
	kit := kafkaKit(t)
	source, err := filepath.Abs("java/RideGroups.java")
	require.NoError(t, err)
	for _, kind := range []string{"share", "consumer"} {
		t.Run(kind, func(t *testing.T) {
			s, k := startReplicated(t, "")
			name, group, r := newRidden(t, k), fresh("group"), ride{8_000, time.Millisecond}
			if kind == "share" {
				earliest, res := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
				res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
				res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: ptr("earliest")}}
				earliest.Resources = append(earliest.Resources, res)
				resp, err := earliest.RequestWith(within(t), franz(t, k))
				require.NoError(t, err)
				require.Zero(t, resp.Resources[0].ErrorCode)
			}
			records := r.records * partitionsRidden
			var out []byte
			done, wrote := make(chan struct{}), make(chan error, 1)
			var failed error
			go func() { wrote <- writeFranz(t, k, name, r) }()
			go func() {
				defer close(done)
				out, failed = kit.Java(t.Context(), source, k.addr, name, group, kind, strconv.Itoa(records)).CombinedOutput()
			}()
			kills := killLeaders(s, killEvery, done)
			require.NoError(t, <-wrote)
			require.NoError(t, failed, "%s", out)
			require.Contains(t, string(out), "seen "+strconv.Itoa(records)+" again 0", "%s", out)
			require.Greater(t, kills, 2, "the ride was too short")
			t.Logf("%d brokers killed", kills)
		})
	}
}
