package remote_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// send sends the numbers from first to last, each in a batch of its own.
func send(t *testing.T, w *world, partitions, first, last int) {
	t.Helper()
	p, err := producer.New(w.local, producer.Config{})
	require.NoError(t, err)
	for i := first; i <= last; i++ {
		_, err := p.Send(t.Context(), record.String("t", "", fmt.Sprint(i)).To(int32(i%partitions)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

// A broker leaves records of a partition out of a response that is full of others.
func TestReadWithLittleMemoryIsComplete(t *testing.T) {
	for _, byTime := range []bool{false, true} {
		t.Run(fmt.Sprint(byTime), func(t *testing.T) {
			bubble(t, 1, 3, func(t *testing.T, w *world) {
				send(t, w, 3, 0, 59)
				got := map[string]int{}
				for r, err := range consumer.Read(t.Context(), w.client, consumer.ReadConfig{Topic: "t", ByTime: byTime, MaxBytes: 1}) {
					require.NoError(t, err)
					got[string(r.Value)]++
				}
				once(t, got, 60)
			})
		})
	}
}

// A request that is sent ahead names the leader epoch of the records before it.
func TestRecordsAroundAnElectionAreReadOnce(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, w *world) {
		c, err := consumer.New(w.client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest()})
		require.NoError(t, err)
		for i := range 6 {
			send(t, w, 1, 10*i, 10*i+9)
			got := read(t, c, 10)
			for k := range 10 {
				require.Equal(t, 1, got[fmt.Sprint(10*i+k)], "record %d", 10*i+k)
			}
			broker := int32(1 + i%2)
			require.NoError(t, w.local.StopBroker(t.Context(), broker))
			require.NoError(t, w.local.StartBroker(t.Context(), broker))
			time.Sleep(time.Minute)
		}
		require.EqualValues(t, 1, c.Stats().Resets, "at the start")
		require.EqualValues(t, 60, c.Stats().Records)
		require.NoError(t, c.Close())
	})
}

// The response to a fetch at the former position arrives after the seek.
func TestRecordsThatArriveAfterASeekDoNotBlockIt(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		send(t, w, 1, 0, 4)
		c, err := consumer.New(w.client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest(), MaxWait: time.Hour})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		got, done := make(chan time.Time, 100), make(chan struct{})
		go func() {
			defer close(done)
			for _, err := range c.Records(ctx) {
				if err == nil {
					got <- time.Now()
				}
			}
		}()
		synctest.Wait()
		require.Len(t, got, 5)
		began := time.Now()
		require.NoError(t, c.Seek(tp(0), 2))
		send(t, w, 1, 5, 5)
		time.Sleep(2 * time.Hour)
		stop()
		<-done
		require.Len(t, got, 5+4)
		for range 5 {
			<-got
		}
		for range 4 {
			require.Less(t, (<-got).Sub(began), time.Second)
		}
		require.NoError(t, c.Close())
	})
}

func TestFetchWaitsForMinBytesUntilMaxWait(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, w *world) {
		c, err := consumer.New(w.client, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest(), MinBytes: 1 << 20, MaxWait: 20 * time.Second})
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(time.Second, func() { send(t, w, 1, 0, 0) })
		read(t, c, 1)
		require.Equal(t, 20*time.Second, time.Since(began))
		require.NoError(t, c.Close())
	})
}

// A consumer requests the metadata of its topics only at first and after a change.
func TestPartitionsThatAreAddedAfterHoursAreRead(t *testing.T) {
	for _, group := range []string{"", "g"} {
		t.Run(group, func(t *testing.T) {
			bubble(t, 1, 1, func(t *testing.T, w *world) {
				require.NoError(t, w.local.CreateTopic(t.Context(), "u", topic.Config{Partitions: 1}))
				c, err := consumer.New(w.client, consumer.Config{Group: group, Topics: []string{"u"}, Reset: consumer.Earliest()})
				require.NoError(t, err)
				time.AfterFunc(3*time.Hour, func() {
					require.NoError(t, w.local.AddPartitions(context.Background(), "u", 2))
					p, err := producer.New(w.local, producer.Config{})
					require.NoError(t, err)
					_, err = p.Send(context.Background(), record.String("u", "", "late").To(1))
					require.NoError(t, err)
					require.NoError(t, p.Close())
				})
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
				defer cancel()
				n := 0
				for r, err := range c.Records(ctx) {
					require.NoError(t, err)
					require.Equal(t, "late", string(r.Value))
					n++
					break
				}
				require.Equal(t, 1, n)
				require.NoError(t, c.Close())
			})
		})
	}
}
