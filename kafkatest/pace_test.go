package kafkatest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// fetchOfNothing is a fetch that the server refuses at once, although it may wait for 5 s.
func fetchOfNothing() kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 4, 5000, 1, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = "nope", []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	req.Topics = append(req.Topics, topic)
	return req
}

// asks sends requests without a pause for the duration d, and returns their number.
func asks(t *testing.T, w *wire, req kmsg.Request, d time.Duration) (n int) {
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		if n == 50_000 {
			t.Fatalf("%d requests, and the clock has moved by %v of %v", n, d-time.Until(end), d)
		}
		w.ask(req)
	}
	return n
}

func TestClientThatAsksInALoopDoesNotStopTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true})
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.SetVersion(9)
		for _, req := range []kmsg.Request{fetchOfNothing(), metadata} {
			asks(t, dial(t, s), req, 700*time.Millisecond) // a client's backoff
		}
	})
}

func TestAnswersTakeNoTimeToAClientThatPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true})
		w, start := dial(t, s), time.Now()
		for range barrenAtOnce {
			for range barrenAtOnce {
				w.ask(fetchOfNothing())
			}
			time.Sleep(time.Nanosecond)
		}
		require.Equal(t, barrenAtOnce*time.Nanosecond, time.Since(start))
	})
}

func TestWaitingForRecordsIsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"nope": 1}})
		w := dial(t, s)
		require.NoError(t, w.conn.SetDeadline(time.Time{}))
		start := time.Now()
		for range 3 * barrenAtOnce {
			w.ask(fetchOfNothing())
		}
		require.Equal(t, 3*barrenAtOnce*5*time.Second, time.Since(start))
	})
}

func TestClientThatAsksInALoopIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fakeT
		said := f.run(func() {
			s := New(&f, Config{Pipe: true})
			w := dial(t, s)
			require.NoError(t, w.conn.SetDeadline(time.Time{}))
			for range 2 * barrenTold {
				w.ask(fetchOfNothing())
			}
			s.WaitRecords("nope", 1)
		})
		require.Contains(t, said, `client "wire" on connection 1 asks in a loop without a pause: 2000 answers that were of no use to it, the last to Fetch v4, UNKNOWN_TOPIC_OR_PARTITION`)
		var told []string
		for _, line := range f.log {
			if strings.Contains(line, `client "wire" on connection 1 asks in a loop`) {
				told = append(told, line)
			}
		}
		require.Len(t, told, 1, "once is enough")
	})
}

// franz-go retries at once after FENCED_LEADER_EPOCH, until its next metadata arrives.
func TestIdleConsumersRideThroughRestarts(t *testing.T) {
	for _, group := range []string{"", "g"} {
		synctest.Test(t, func(t *testing.T) {
			s := New(t, Config{Pipe: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"a": 3}})
			var mu sync.Mutex
			now, atOnce, spins := time.Now(), 0, false
			s.Fault(Fault{APIs: []kafka.Key{kafka.Fetch}, Decide: func(x *kafka.Exchange) *Effect {
				mu.Lock()
				defer mu.Unlock()
				if x.Received.After(now) {
					now, atOnce = x.Received, 0
				}
				atOnce++
				if spins = spins || atOnce > 20_000; spins {
					return &Effect{Hold: true} // otherwise the test would never end
				}
				return nil
			}})
			opts := []kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumeTopics("a"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
			if group != "" {
				opts = append(opts, kgo.ConsumerGroup(group))
			}
			cl, err := kgo.NewClient(opts...)
			require.NoError(t, err)
			defer cl.Close()
			for i := range 16 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*41*time.Millisecond)
				require.Zero(t, cl.PollFetches(ctx).NumRecords())
				cancel()
				s.Restart()
			}
			s.Fill("a", record.String("a", "", "x"))
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			got := 0
			for got == 0 && ctx.Err() == nil { // it returns errors for closed connections too
				got = cl.PollFetches(ctx).NumRecords()
			}
			require.Equal(t, 1, got)
			mu.Lock()
			defer mu.Unlock()
			require.False(t, spins, "%d fetches at one instant", atOnce)
		})
	}
}
