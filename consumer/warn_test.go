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

func TestTimeoutsOutOfProportionAreWarnedOf(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		for name, c := range map[string]struct {
			change func(*consumer.Config)
			want   string // "": no warning
		}{
			"defaults":            {func(*consumer.Config) {}, ""},
			"slow detection":      {func(c *consumer.Config) { c.SessionTimeout = 5 * time.Minute }, "a member that dies is noticed late"},
			"needless rebalances": {func(c *consumer.Config) { c.SessionTimeout = 7 * time.Second }, "a short pause of the process"},
			"at the lower edge":   {func(c *consumer.Config) { c.SessionTimeout = 10 * time.Second }, ""},
			"at the upper edge":   {func(c *consumer.Config) { c.SessionTimeout = 2 * time.Minute }, ""},
			"needless heartbeats": {func(c *consumer.Config) { c.HeartbeatInterval = 10 * time.Millisecond }, "heartbeat interval below a hundredth"},
			"impatient polls":     {func(c *consumer.Config) { c.MaxPollInterval = 20 * time.Second }, "max poll interval below the session timeout"},
		} {
			var out bytes.Buffer
			cfg := consumer.Config{Group: "g", Topics: []string{"t"}, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
			c.change(&cfg)
			g, err := consumer.New(over(t, b), cfg)
			require.NoError(t, err, name)
			require.NoError(t, g.Close(), name)
			if c.want == "" {
				require.Empty(t, out.String(), name)
			} else {
				require.Contains(t, out.String(), c.want, name)
			}
		}
		var out bytes.Buffer
		free, err := consumer.New(over(t, b), consumer.Config{Topics: []string{"t"}, SessionTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		require.NoError(t, err)
		require.NoError(t, free.Close())
		require.NotContains(t, out.String(), "session timeout", "a free consumer has no session")
	})
}
