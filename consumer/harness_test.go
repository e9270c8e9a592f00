package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// bubble runs fn with virtual time and a cluster in memory that has topic "t" with the given
// partitions.
func bubble(t *testing.T, partitions int, fn func(t *testing.T, c *strata.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fn(t, c)
	})
}

func tp(p int32) record.TopicPartition { return record.TopicPartition{Topic: "t", Partition: p} }

// fill sends n records to partition p, with their numbers as values.
func fill(t *testing.T, c *strata.Cluster, p int32, n int) {
	t.Helper()
	pr, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	var rs []record.Record
	for i := range n {
		rs = append(rs, record.String("t", "", fmt.Sprint(i)).To(p))
	}
	_, err = pr.Send(t.Context(), rs...)
	require.NoError(t, err)
	require.NoError(t, pr.Close())
}

func open(t *testing.T, b consumer.LogBackend, cfg consumer.Config) *consumer.Consumer {
	t.Helper()
	speak(t, &cfg)
	c, err := consumer.New(over(t, b), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // for tests that end early
	return c
}

// read reads n records and ends the loop.
func read(t *testing.T, c *consumer.Consumer, n int) (rs []record.Record) {
	t.Helper()
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for r, err := range c.Records(ctx) {
		require.NoError(t, err)
		rs = append(rs, r)
		if len(rs) == n {
			break
		}
	}
	require.Len(t, rs, n, "records came within an hour")
	return rs
}

// member is a group member that polls all the time.
type member struct {
	*consumer.Consumer
	stop context.CancelFunc
	done chan struct{}
}

// poll makes c process records until stop. handle may be nil.
func poll(t *testing.T, c *consumer.Consumer, handle func(record.Record)) *member {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	m := &member{Consumer: c, stop: stop, done: make(chan struct{})}
	t.Cleanup(func() {
		stop()
		<-m.done
	})
	go func() {
		defer close(m.done)
		for r, err := range c.Records(ctx) {
			if err != nil {
				t.Errorf("poll: %v", err)
				return
			}
			if handle != nil {
				handle(r)
			}
		}
	}()
	return m
}

// leave stops polling and closes the consumer.
func (m *member) leave(t *testing.T) {
	t.Helper()
	m.stop()
	<-m.done
	require.NoError(t, m.Close())
}

func committed(t *testing.T, c *strata.Cluster, g string) record.Offsets {
	t.Helper()
	got, err := c.FetchOffsets(t.Context(), g, nil)
	require.NoError(t, err)
	o := record.Offsets{}
	for tp, co := range got {
		if co.Offset >= 0 {
			o[tp] = co.Offset
		}
	}
	return o
}

func waitStable(t *testing.T, c *strata.Cluster, g string, n int) group.Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	info, err := c.WaitGroup(ctx, g, group.StableWith(n))
	require.NoError(t, err)
	return info
}
