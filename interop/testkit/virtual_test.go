package testkit

import (
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
)

// sarama is not here. It has a process-wide pool of channels, and metrics with a ticker. Only the
// bubble that created them may use them.

func TestKafkaGoWaitsForALostAnswerInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 1}})
		lost := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, DropReply: true})
		transport := &kafkago.Transport{Dial: s.Dial}
		defer transport.CloseIdleConnections()
		w := &kafkago.Writer{Addr: kafkago.TCP(s.Addrs()...), Topic: "orders", Transport: transport, RequiredAcks: kafkago.RequireAll}
		defer w.Close()
		start := time.Now()
		require.NoError(t, w.WriteMessages(t.Context(), kafkago.Message{Value: []byte("paid")}))
		require.Greater(t, time.Since(start), 5*time.Second)
		require.Equal(t, 1, lost.Hits())
		require.Len(t, s.Topic("orders"), 2) // it is not idempotent: the order was written twice
	})
}
