package consumer_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
)

func TestHeartbeatIntervalAboveAThirdOfTheSessionIsWarnedOf(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		for interval, warned := range map[time.Duration]bool{10 * time.Second: false, 20 * time.Second: true} {
			var out bytes.Buffer
			cfg := config(consumer.CommitProcessed)
			cfg.SessionTimeout, cfg.HeartbeatInterval, cfg.Logger = 30*time.Second, interval, slog.New(slog.NewTextHandler(&out, nil))
			c := open(t, b, cfg)
			require.NoError(t, c.Close())
			require.Equal(t, warned, bytes.Contains(out.Bytes(), []byte("heartbeat interval")), "%s", interval)
		}
	})
}
