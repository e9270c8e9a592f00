package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

func TestRecordsSentOverTheNetworkAreReadBack(t *testing.T) {
	for name, brokers := range map[string]int{"one broker": 1, "three brokers": 3} {
		t.Run(name, func(t *testing.T) {
			bubble(t, brokers, 6, func(t *testing.T, w *world) {
				fill(t, w.client, 1000)
				got := map[string]int{}
				for r, err := range consumer.Read(t.Context(), w.client, consumer.ReadConfig{Topic: "t"}) {
					require.NoError(t, err)
					got[string(r.Value)]++
				}
				once(t, got, 1000)
			})
		})
	}
}

// With small responses most fetches are sent ahead of the application.
func TestSmallFetchesReadEachRecordOnce(t *testing.T) {
	for name, ahead := range map[string]int{"one response ahead": 0, "none ahead": -1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, 6, func(t *testing.T, w *world) {
				w.cfg.FetchAhead = ahead
				client := w.open(t)
				p, err := producer.New(client, producer.Config{BatchBytes: 100})
				require.NoError(t, err)
				for i := range 300 {
					_, err := p.Send(t.Context(), record.String("t", fmt.Sprint(i), fmt.Sprint(i)))
					require.NoError(t, err)
				}
				require.NoError(t, p.Close())
				c, err := consumer.New(client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest(), PartitionBytes: 100, MaxBytes: 300})
				require.NoError(t, err)
				once(t, read(t, c, 300), 300)
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestSeekDropsRecordsThatWereFetchedAhead(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		p, err := producer.New(w.client, producer.Config{})
		require.NoError(t, err)
		for i := range 5 { // a batch each
			_, err := p.Send(t.Context(), record.String("t", "", fmt.Sprint(i)))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
		c, err := consumer.New(w.client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest(), PartitionBytes: 1, MaxBytes: 1})
		require.NoError(t, err)
		var got []int64
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if got = append(got, r.Offset); len(got) == 8 {
				break
			}
			synctest.Wait() // the next record has arrived
			if len(got) == 3 {
				require.NoError(t, c.Seek(record.TopicPartition{Topic: "t"}, 0))
			}
		}
		require.Equal(t, []int64{0, 1, 2, 0, 1, 2, 3, 4}, got)
		require.NoError(t, c.Close())
	})
}

func TestCoordinatorThatHasMovedIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"t": 1}})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		at := record.TopicPartition{Topic: "t"}
		require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{at: 0}))
		for range 10 {
			s.ShuffleLeaders("__consumer_offsets")
			got, err := c.FetchOffsets(t.Context(), "g", nil)
			for began := time.Now(); errors.Is(err, group.ErrCoordinatorNotAvailable) && time.Since(began) < time.Second; time.Sleep(10 * time.Millisecond) {
				got, err = c.FetchOffsets(t.Context(), "g", nil)
			}
			require.NoError(t, err) // and not ErrNotCoordinator
			require.Len(t, got, 1)
		}
		require.NoError(t, c.Close())
	})
}

// A new Kafka has no coordinators until it has created the topic of the groups.
func TestAdministrationOfAGroupWaitsForItsCoordinator(t *testing.T) {
	at := record.TopicPartition{Topic: "t"}
	for name, call := range map[string]func(ctx context.Context, c *remote.Cluster) error{
		"describe": func(ctx context.Context, c *remote.Cluster) error { _, err := c.Group(ctx, "g"); return err },
		"reset": func(ctx context.Context, c *remote.Cluster) error {
			return c.ResetOffsets(ctx, "g", record.Offsets{at: 1})
		},
		"delete": func(ctx context.Context, c *remote.Cluster) error { return c.DeleteGroup(ctx, "g") },
		"delete offsets": func(ctx context.Context, c *remote.Cluster) error {
			_, err := c.DeleteOffsets(ctx, "g", at)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 1}})
				c, err := dial(t.Context(), s)
				require.NoError(t, err)
				require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{at: 0}))
				require.NoError(t, c.Close())
				c, err = dial(t.Context(), s) // knows no coordinator
				require.NoError(t, err)
				none := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.FindCoordinator}, Code: kafka.CoordinatorNotAvailable, Times: 3})
				require.NoError(t, call(t.Context(), c))
				require.Equal(t, 3, none.Hits())
				require.NoError(t, c.Close())

				c, err = dial(t.Context(), s)
				require.NoError(t, err)
				s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.FindCoordinator}, Code: kafka.CoordinatorNotAvailable, Times: kafkatest.Always})
				began := time.Now()
				require.ErrorIs(t, call(t.Context(), c), group.ErrCoordinatorNotAvailable)
				require.LessOrEqual(t, time.Since(began), 12*time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = call(ctx, c)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, group.ErrCoordinatorNotAvailable)
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestGroupOverTheNetworkReadsEachRecordOnce(t *testing.T) {
	for name, protocol := range map[string]consumer.Protocol{"classic": consumer.ProtocolClassic, "newer": consumer.ProtocolConsumer} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, 6, func(t *testing.T, w *world) {
				fill(t, w.client, 1000)
				c, err := consumer.New(w.client, consumer.Config{Group: "g", Topics: []string{"t"}, Protocol: protocol})
				require.NoError(t, err)
				once(t, read(t, c, 1000), 1000)
				require.NoError(t, c.Close())
				info, err := w.local.Group(t.Context(), "g")
				require.NoError(t, err)
				require.Zero(t, info.Lag())
			})
		})
	}
}

func TestTransformOverTheNetworkIsExactlyOnce(t *testing.T) {
	bubble(t, 3, 6, func(t *testing.T, w *world) {
		require.NoError(t, w.local.CreateTopic(t.Context(), "out", topic.Config{Partitions: 2}))
		fill(t, w.client, 1000)
		c, err := consumer.New(w.client, consumer.Config{Group: "g", Topics: []string{"t"}})
		require.NoError(t, err)
		p, err := producer.New(w.client, producer.Config{TransactionalID: "id"})
		require.NoError(t, err)
		n := 0
		err = consumer.Transform(t.Context(), c, p, func(r record.Record, emit func(record.Record)) error {
			emit(record.Record{Topic: "out", Key: r.Key, Value: r.Value})
			if n++; n == 1000 {
				c.Wakeup()
			}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, p.Close())
		synctest.Wait() // until the markers are written
		got := map[string]int{}
		for r, err := range consumer.Read(t.Context(), w.client, consumer.ReadConfig{Topic: "out"}) {
			require.NoError(t, err)
			got[string(r.Value)]++
		}
		once(t, got, 1000)
	})
}

func TestRecordWithoutAcknowledgementArrives(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		p, err := producer.New(w.client, producer.Config{Acks: record.AcksNone})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("t", "", "a"))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		c, err := consumer.New(w.client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest()})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"a": 1}, read(t, c, 1))
		require.NoError(t, c.Close())
	})
}

// Members of one group wait in the coordinator for each other. On a shared connection the second
// one's request would wait behind the first one's.
func TestTwoMembersOnOneClientGetRecordsWithinTwoHeartbeats(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, w *world) {
		began := time.Now()
		got := make(chan time.Duration, 2)
		ctx, stop := context.WithCancel(t.Context())
		var members sync.WaitGroup
		for range 2 {
			c, err := consumer.New(w.client, consumer.Config{Group: "g", Topics: []string{"t"}, HeartbeatInterval: time.Second})
			require.NoError(t, err)
			members.Go(func() {
				first := true
				for range c.Records(ctx) {
					if first {
						got <- time.Since(began)
					}
					first = false
				}
				require.NoError(t, c.Close())
			})
		}
		for len(got) < 2 && time.Since(began) < time.Minute {
			fill(t, w.client, 10)
			time.Sleep(10 * time.Millisecond)
		}
		for range 2 { // a cooperative rebalance takes two heartbeats
			require.LessOrEqual(t, <-got, 2*time.Second)
		}
		stop()
		members.Wait()
	})
}

func TestIdleReaderDoesNotDelayABusyOne(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		require.NoError(t, w.local.CreateTopic(t.Context(), "idle", topic.Config{}))
		ctx, stop := context.WithCancel(t.Context())
		var idle sync.WaitGroup
		idle.Go(func() {
			for range consumer.Follow(ctx, w.client, consumer.ReadConfig{Topic: "idle"}) {
			}
		})
		sent := make(chan time.Time, 1)
		idle.Go(func() {
			for range consumer.Follow(ctx, w.client, consumer.ReadConfig{Topic: "t"}) {
				require.Less(t, time.Since(<-sent), 5*time.Millisecond)
				sent <- time.Time{}
			}
		})
		p, err := producer.New(w.client, producer.Config{})
		require.NoError(t, err)
		for range 50 {
			synctest.Wait()
			sent <- time.Now()
			_, err := p.Send(t.Context(), record.String("t", "", "a"))
			require.NoError(t, err)
			synctest.Wait()
			require.True(t, (<-sent).IsZero(), "it was read at once")
			time.Sleep(137 * time.Millisecond)
		}
		require.NoError(t, p.Close())
		stop()
		idle.Wait()
	})
}
