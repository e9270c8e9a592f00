package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// readBy reads in one of the ways and calls body for each record, until ctx is done.
func readBy(t *testing.T, way string, ctx context.Context, c *consumer.Consumer, body func(record.Record)) {
	switch way {
	case "Records":
		for r, err := range c.Records(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			body(r)
		}
	case "Batches":
		for b, err := range c.Batches(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			for r := range b.All() {
				body(r)
			}
		}
	case "Poll":
		for {
			b, err := c.Poll(ctx)
			if err != nil {
				return
			}
			for r := range b.All() {
				body(r)
			}
		}
	case "Run":
		err := c.Run(ctx, func(_ context.Context, r record.Record) error { body(r); return nil }, consumer.RunConfig{Workers: 2})
		if err != nil {
			t.Error(err)
		}
	}
}

// Another goroutine, or the body itself, seeks back while records are handed out. The offset
// sought to is always read next.
func TestSeekBesideARecordInHandIsNeverLost(t *testing.T) {
	for _, way := range []string{"Records", "Batches", "Poll", "Run"} {
		for _, from := range []string{"body", "another goroutine"} {
			t.Run(way+"/"+from, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 6_000)
					c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}, MaxPollRecords: 20})
					lost := 0
					for round := range 40 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						at := int64(1 + (round*37)%1000)
						seek := make(chan struct{})
						var wg sync.WaitGroup
						if from != "body" {
							wg.Go(func() {
								<-seek
								if err := c.Seek(tp(0), 0); err != nil {
									t.Error(err)
								}
							})
						}
						var mu sync.Mutex
						sought, back := false, false
						readBy(t, way, ctx, c, func(r record.Record) {
							mu.Lock()
							defer mu.Unlock()
							switch {
							case r.Offset >= at && !sought:
								sought = true
								close(seek)
								if from == "body" {
									if err := c.Seek(tp(0), 0); err != nil {
										t.Error(err)
									}
								}
							case r.Offset == 0 && sought:
								back = true
								cancel()
							}
						})
						cancel()
						if !sought {
							close(seek)
						}
						wg.Wait()
						if !back {
							lost++
						}
						require.NoError(t, c.Seek(tp(0), 0))
					}
					require.Zero(t, lost, "of 40 seeks")
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

func TestSeekFromACallbackIsWhereReadingBegins(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 10)
		var c *consumer.Consumer
		cfg := config(consumer.CommitProcessed)
		cfg.OnAssigned = func(ctx context.Context, tps []record.TopicPartition) {
			if err := c.Seek(tp(0), 7); err != nil {
				t.Error(err)
			}
		}
		cfg.StartAt = func(context.Context, []record.TopicPartition) (record.Offsets, error) {
			return record.Offsets{tp(0): 3}, nil
		}
		c = open(t, b, cfg)
		require.Equal(t, int64(7), read(t, c, 1)[0].Offset)
		require.NoError(t, c.Close())
	})
}

func TestSeekTimeFromACallbackIsWhereReadingBegins(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 4)
		time.Sleep(time.Minute)
		middle := time.Now()
		fill(t, b, 0, 4)
		var c *consumer.Consumer
		cfg := config(consumer.CommitProcessed)
		cfg.OnAssigned = func(ctx context.Context, tps []record.TopicPartition) {
			if err := c.SeekTime(ctx, middle, tps...); err != nil {
				t.Error(err)
			}
		}
		c = open(t, b, cfg)
		require.Equal(t, int64(4), read(t, c, 1)[0].Offset)
		require.NoError(t, c.Close())
	})
}
