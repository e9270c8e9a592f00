package remote_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// fetched counts the partitions of fetch requests.
type fetched struct {
	mu                              sync.Mutex
	requests, partitions, forgotten int
}

func (f *fetched) add(x *kafka.Exchange) {
	req, ok := x.Request.(*kmsg.FetchRequest)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	for _, t := range req.Topics {
		f.partitions += len(t.Partitions)
	}
	for _, t := range req.ForgottenTopics {
		f.forgotten += len(t.Partitions)
	}
}

// reset returns the counts since the last call.
func (f *fetched) reset() (requests, partitions, forgotten int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests, partitions, forgotten = f.requests, f.partitions, f.forgotten
	f.requests, f.partitions, f.forgotten = 0, 0, 0
	return requests, partitions, forgotten
}

// reading runs fn with a consumer that polls a topic of n partitions at one broker.
func reading(t *testing.T, n int, fn func(t *testing.T, s *kafkatest.Server, f *fetched, send func(partition int32), c *consumer.Consumer)) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": n}})
		f := &fetched{}
		s.Observe(f.add)
		client, err := dial(t.Context(), s)
		require.NoError(t, err)
		c, err := consumer.New(client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest()})
		require.NoError(t, err)
		p, err := producer.New(client, producer.Config{})
		require.NoError(t, err)
		var read sync.WaitGroup
		got := make(chan int32, 1)
		read.Go(func() {
			for r, err := range c.Records(t.Context()) {
				if err != nil {
					t.Error(err)
				}
				got <- r.Partition
			}
		})
		send := func(partition int32) {
			t.Helper()
			_, err := p.Send(t.Context(), record.String("t", "", "value").To(partition))
			require.NoError(t, err)
			require.Equal(t, partition, <-got)
		}
		time.Sleep(5 * time.Second) // in the bubble
		fn(t, s, f, send, c)
		require.NoError(t, c.Close())
		read.Wait()
		require.NoError(t, p.Close())
		require.NoError(t, client.Close())
	})
}

func TestFetchRequestsHaveOnlyPartitionsThatChange(t *testing.T) {
	reading(t, 100, func(t *testing.T, _ *kafkatest.Server, f *fetched, send func(int32), c *consumer.Consumer) {
		_, partitions, _ := f.reset()
		require.LessOrEqual(t, partitions, 200, "all at first, and again with their leader epochs")
		time.Sleep(time.Minute)
		requests, partitions, _ := f.reset()
		require.Greater(t, requests, 100)
		require.Zero(t, partitions)
		send(7)
		send(7)
		send(90)
		_, partitions, _ = f.reset()
		require.LessOrEqual(t, partitions, 4)
		time.Sleep(2 * time.Second)
		f.reset()
		c.Pause(record.TopicPartition{Topic: "t", Partition: 3})
		time.Sleep(2 * time.Second)
		_, partitions, forgotten := f.reset()
		require.Equal(t, 1, forgotten)
		require.Zero(t, partitions)
		require.Equal(t, int64(0), c.Lag()[record.TopicPartition{Topic: "t", Partition: 7}])
		require.Len(t, c.Lag(), 100)
	})
}

func TestRecordsArriveAfterABrokerHasLostTheFetchSession(t *testing.T) {
	for name, lose := range map[string]func(s *kafkatest.Server){
		"restart": func(s *kafkatest.Server) { s.Restart() },
		"unknown": func(s *kafkatest.Server) {
			s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Code: kafka.FetchSessionIDNotFound})
		},
		"another epoch": func(s *kafkatest.Server) {
			s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Code: kafka.InvalidFetchSessionEpoch})
		},
		"throttled": func(s *kafkatest.Server) {
			s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Throttle: 5 * time.Second, Times: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			reading(t, 100, func(t *testing.T, s *kafkatest.Server, f *fetched, send func(int32), _ *consumer.Consumer) {
				send(1)
				lose(s)
				send(2)
				send(1)
				time.Sleep(10 * time.Second)
				f.reset()
				time.Sleep(10 * time.Second)
				_, partitions, _ := f.reset()
				require.Zero(t, partitions, "there is a session again")
			})
		})
	}
}

func TestReaderOfFewPartitionsTakesNoFetchSession(t *testing.T) {
	reading(t, 2, func(t *testing.T, _ *kafkatest.Server, f *fetched, send func(int32), _ *consumer.Consumer) {
		send(1)
		requests, partitions, _ := f.reset()
		require.GreaterOrEqual(t, partitions, 2*(requests-1))
	})
}

// A broker that throttles a client returns a response without partitions.
func TestReaderThatIsThrottledForLongGetsNoError(t *testing.T) {
	for _, n := range []int{1, 100} {
		reading(t, n, func(t *testing.T, s *kafkatest.Server, _ *fetched, send func(int32), _ *consumer.Consumer) {
			began := time.Now()
			s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Times: 30, Edit: func(_ kmsg.Request, resp kmsg.Response) {
				r := resp.(*kmsg.FetchResponse)
				r.Topics, r.ThrottleMillis = nil, 1000
			}})
			time.Sleep(time.Second)
			send(0)
			require.Greater(t, time.Since(began), 20*time.Second)
		})
	}
}
