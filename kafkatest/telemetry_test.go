package kafkatest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
)

// Checklist row F22.
func TestClientsPushWhatTheyMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pushes := make(chan kafka.TelemetryPush, 10)
		s := New(t, Config{Pipe: true, Topics: map[string]int{"orders": 1}, Telemetry: kafka.Telemetry{Receive: func(p kafka.TelemetryPush) { pushes <- p }}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ClientID("shop"))
		require.NoError(t, err)
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
		cl.Close()
		synctest.Wait()
		require.NotEmpty(t, pushes) // one each five minutes, the last one at Close
		for len(pushes) > 1 {
			require.False(t, (<-pushes).Terminating)
		}
		last := <-pushes
		require.Equal(t, "shop", last.ClientID)
		require.NotEmpty(t, last.Payload)
		require.True(t, last.Terminating)
	})
}
