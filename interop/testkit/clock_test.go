package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

// A member of sarama, which works in no bubble, is removed from its group when the brokers' clock
// moves by more than its session timeout. It joins again, and continues after the last marked
// record.
func TestSaramaComesBackWhenItsSessionIsOver(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Clock: true, Topics: map[string]int{"orders": 1}})
	c := sarama.NewConfig()
	c.Version = sarama.V2_4_0_0
	c.Consumer.Group.Session.Timeout, c.Consumer.Group.Heartbeat.Interval = 45*time.Second, 20*time.Millisecond
	c.Consumer.Offsets.Initial, c.Consumer.Offsets.AutoCommit.Interval = sarama.OffsetOldest, 20*time.Millisecond
	c.Consumer.MaxWaitTime, c.Metadata.Retry.Backoff = 50*time.Millisecond, 20*time.Millisecond
	g, err := sarama.NewConsumerGroup(s.Addrs(), "billing", c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := worker{sessions: make(chan int32, 10), values: make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = g.Consume(ctx, []string{"orders"}, w) // errors of sessions that end
		}
	}()
	defer func() {
		cancel()
		<-ended
		require.NoError(t, g.Close())
	}()

	first := <-w.sessions
	s.Fill("orders", record.String("orders", "", "paid"))
	require.Equal(t, "paid", <-w.values)
	s.WaitCommitted("billing", record.TopicPartition{Topic: "orders"}, 1)
	before := s.WaitGroup("billing", group.StableWith(1)).Members[0].ID
	s.Advance(46 * time.Second)
	s.WaitGroup("billing", func(i group.Info) bool { return group.StableWith(1)(i) && i.Members[0].ID != before })
	require.NotEqual(t, first, <-w.sessions, "another generation")
	s.Fill("orders", record.String("orders", "", "sent"))
	require.Equal(t, "sent", <-w.values)
}

type worker struct {
	sessions chan int32
	values   chan string
}

func (w worker) Setup(s sarama.ConsumerGroupSession) error {
	w.sessions <- s.GenerationID()
	return nil
}

func (worker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (w worker) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case w.values <- string(m.Value):
				s.MarkMessage(m, "")
			case <-s.Context().Done():
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}
