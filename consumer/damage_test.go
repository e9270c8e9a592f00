package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// spoiled is a cluster whose answers for partition 0 are spoiled.
type spoiled struct {
	*strata.Cluster
	spoil func(*partition.FetchedPartition) // may change the result of a read
	asked atomic.Int64                      // number of fetches that named partition 0
}

func (s *spoiled) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	resp, err := s.Cluster.Fetch(ctx, req)
	if err != nil {
		return nil, err
	}
	for i := range resp.Partitions {
		if fp := &resp.Partitions[i]; fp.TopicPartition == tp(0) {
			s.asked.Add(1)
			s.spoil(fp)
		}
	}
	return resp, nil
}

var damages = map[string]func(*partition.FetchedPartition){
	"found by the log": func(fp *partition.FetchedPartition) {
		fp.Err, fp.Bytes = fmt.Errorf("read t-0: %w", record.ErrCorrupt), nil
	},
	"bytes that are no batch": func(fp *partition.FetchedPartition) {
		if len(fp.Bytes) > 0 {
			fp.Bytes = make([]byte, 200)
		}
	},
	"a batch that ends in the middle of a record": func(fp *partition.FetchedPartition) {
		if len(fp.Bytes) > 0 {
			fp.Bytes = slices.Clone(fp.Bytes)
			fp.Bytes[record.HeaderSize] = 0x7e // length of the first record
		}
	},
}

func TestDamagedPartitionIsToldOnceAndTheOthersGoOn(t *testing.T) {
	for name, spoil := range damages {
		for _, byPoll := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/poll=%t", name, byPoll), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 3)
					fill(t, b, 1, 3)
					s := &spoiled{Cluster: b, spoil: spoil}
					c := open(t, s, consumer.Config{Assign: record.Offsets{tp(0): 0, tp(1): 0}})
					errs, values := collect(t, c, byPoll)
					require.Equal(t, []string{"0", "1", "2"}, values)
					require.Len(t, errs, 1)
					var pe *consumer.PartitionError
					require.ErrorAs(t, errs[0], &pe)
					require.Equal(t, tp(0), pe.TopicPartition)
					require.Equal(t, int64(0), pe.Offset)
					require.ErrorIs(t, errs[0], record.ErrCorrupt)

					asked := s.asked.Load()
					fill(t, b, 1, 1)
					errs, values = collect(t, c, byPoll)
					require.Empty(t, errs)
					require.NotEmpty(t, values)
					require.Equal(t, asked, s.asked.Load(), "not fetched again")

					s.spoil = func(*partition.FetchedPartition) {}
					require.NoError(t, c.Seek(tp(0), 1)) // past the damage
					errs, values = collect(t, c, byPoll)
					require.Empty(t, errs)
					require.Subset(t, values, []string{"1", "2"})
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// collect reads the available records and errors for a virtual minute.
func collect(t *testing.T, c *consumer.Consumer, byPoll bool) (errs []error, values []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !byPoll {
		for r, err := range c.Records(ctx) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			values = append(values, string(r.Value))
		}
		return errs, values
	}
	for {
		b, err := c.Poll(ctx)
		if ctx.Err() != nil {
			return errs, values
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for r := range b.All() {
			values = append(values, string(r.Value))
		}
	}
}

func TestPassingErrorsOfAPartitionAreTriedAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		n := 0
		s := &spoiled{Cluster: b, spoil: func(fp *partition.FetchedPartition) {
			if n++; n < 5 {
				fp.Err, fp.Bytes = partition.ErrNotLeader, nil
			}
		}}
		c := open(t, s, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		require.Len(t, read(t, c, 3), 3)
		require.NoError(t, c.Close())
	})
}

// reordered is a backend that fails the first fetch and returns the partitions of the second in
// reverse order.
type reordered struct {
	*strata.Cluster
	n int
}

func (s *reordered) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	s.n++
	switch s.n {
	case 1:
		return nil, errors.New("lost")
	case 2:
		resp, err := s.Cluster.Fetch(ctx, req)
		if err == nil {
			slices.Reverse(resp.Partitions)
		}
		return resp, err
	}
	return s.Cluster.Fetch(ctx, req)
}

func TestFailedFetchesAreTriedAgain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		fill(t, b, 1, 2)
		c := open(t, &reordered{Cluster: b}, consumer.Config{Assign: record.Offsets{tp(0): 0, tp(1): 0}})
		per := map[int32]int{}
		for _, r := range read(t, c, 4) {
			per[r.Partition]++
		}
		require.Equal(t, map[int32]int{0: 2, 1: 2}, per)
		require.NoError(t, c.Close())
	})
}

func TestCallsUnderWayEndWhenTheConsumerIsClosed(t *testing.T) {
	for name, wait := range map[string]func(context.Context, *consumer.Consumer) error{
		"Poll": func(ctx context.Context, c *consumer.Consumer) error { _, err := c.Poll(ctx); return err },
		"Run": func(ctx context.Context, c *consumer.Consumer) error {
			return c.Run(ctx, func(context.Context, record.Record) error { return nil }, consumer.RunConfig{})
		},
		"Records": func(ctx context.Context, c *consumer.Consumer) error {
			for _, err := range c.Records(ctx) {
				return err
			}
			return nil
		},
	} {
		for _, g := range []string{"", "g"} {
			t.Run(name+g, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					cfg := consumer.Config{Group: g, Topics: []string{"t"}}
					c := open(t, b, cfg)
					done := make(chan error, 1)
					go func() { done <- wait(context.Background(), c) }()
					synctest.Wait()
					begun := time.Now()
					require.NoError(t, c.Close())
					err := <-done
					require.Zero(t, time.Since(begun))
					if name == "Poll" {
						require.ErrorIs(t, err, consumer.ErrClosed)
					} else {
						require.NoError(t, err)
					}
					require.NoError(t, c.Close())
					_, err = c.Poll(t.Context())
					require.ErrorIs(t, err, consumer.ErrClosed)
				})
			})
		}
	}
}
