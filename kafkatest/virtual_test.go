package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

func TestOwnConsumerWorksInABubbleBesideTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		c, err := consumer.New(s.Cluster(), consumer.Config{Group: "g", Topics: []string{"a"}})
		require.NoError(t, err)
		defer c.Close()
		s.Fill("a", record.String("a", "", "x"))
		b, err := c.Poll(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, b.Offsets())
	})
}

func TestDelayPassesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.DefaultProduceTopic("a"))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("1")).FirstErr())
		start := time.Now()
		s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Delay: 7 * time.Second})
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("2")).FirstErr())
		require.InDelta(t, 7, time.Since(start).Seconds(), 0.5)
		require.Len(t, s.Topic("a"), 2)
	})
}

func TestThrottledConnectionIsServedAgainWhenTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true})
		s.Fault(Fault{APIs: []kafka.Key{kafka.Metadata}, Throttle: 5 * time.Second})
		impatient, other := dial(t, s), dial(t, s)
		start := time.Now()
		ask := func(w *wire) (throttled int32, took time.Duration) {
			req := kmsg.NewPtrMetadataRequest()
			req.SetVersion(9)
			return w.ask(req).(*kmsg.MetadataResponse).ThrottleMillis, time.Since(start)
		}
		throttled, took := ask(impatient)
		require.Equal(t, int32(5000), throttled)
		require.Zero(t, took, "it is told at once")
		_, took = ask(other)
		require.Zero(t, took)
		throttled, took = ask(impatient)
		require.Zero(t, throttled)
		require.Equal(t, 5*time.Second, took)
		_, took = ask(impatient)
		require.Equal(t, 5*time.Second, took)
	})
}

func TestServerRestartsAlthoughAConnectionIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true})
		s.Fault(Fault{APIs: []kafka.Key{kafka.Metadata}, Throttle: 24 * time.Hour})
		w := dial(t, s)
		req := kmsg.NewPtrMetadataRequest()
		w.ask(req)
		w.send(req)
		start := time.Now()
		s.Restart()
		require.Less(t, time.Since(start), time.Minute)
	})
}
