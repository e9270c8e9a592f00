package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// counted counts the bytes that are fetched.
type counted struct {
	*strata.Cluster
	bytes int
}

func (c *counted) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	resp, err := c.Cluster.Fetch(ctx, req)
	if err == nil {
		for _, p := range resp.Partitions {
			c.bytes += len(p.Bytes)
		}
	}
	return resp, err
}

// The last 100 records of a key agree with a list of all records, whatever the other records are.
func TestReadYieldsTheLastRecordsOfAKey(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *strata.Cluster) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		keys := [][]byte{nil, {}, []byte("alice"), []byte("bob")}
		for i := range 600 {
			rec := record.Record{Topic: "t", Key: keys[rnd.IntN(len(keys))], Value: fmt.Append(nil, i)}
			if i < 20 {
				rec.Key = []byte("rare")
			}
			_, err := p.Send(t.Context(), rec.To(int32(rnd.IntN(3))))
			require.NoError(t, err)
			time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
		}
		require.NoError(t, p.Close())
		for _, key := range append(keys, []byte("rare"), []byte("nobody")) {
			for _, last := range []int{1, 7, 100, 1000} {
				for _, from := range []consumer.Reset{consumer.Earliest(), consumer.Latest()} {
					byPart := map[int32][]string{}
					if from == consumer.Earliest() {
						for r, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t"}) {
							require.NoError(t, err)
							if key == nil || r.Key != nil && string(r.Key) == string(key) {
								byPart[r.Partition] = append(byPart[r.Partition], string(r.Value))
							}
						}
					}
					got, times := map[int32][]string{}, []time.Time{}
					for r, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", Key: key, Last: last, From: from, ByTime: true, MaxBytes: 1000}) {
						require.NoError(t, err)
						got[r.Partition] = append(got[r.Partition], string(r.Value))
						times = append(times, r.Timestamp)
					}
					for part, all := range byPart {
						byPart[part] = all[max(0, len(all)-last):]
					}
					require.Equal(t, byPart, got, "seed %d, key %q, last %d", seed, key, last)
					require.IsNonDecreasing(t, millis(times))
				}
			}
		}
		require.Len(t, places(t, c, consumer.ReadConfig{Topic: "t", Key: []byte("rare")}), 20)
	})
}

func millis(times []time.Time) (all []int64) {
	for _, at := range times {
		all = append(all, at.UnixMilli())
	}
	return append(all, 1<<62)
}

func TestLastRecordsCostNoMoreThanTheyAre(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		for range 300 {
			fill(t, c, 0, 1)
		}
		b := &counted{Cluster: c}
		require.Len(t, places(t, b, consumer.ReadConfig{Topic: "t", MaxBytes: 1}), 300)
		whole := b.bytes
		b.bytes = 0
		require.Len(t, places(t, b, consumer.ReadConfig{Topic: "t", MaxBytes: 1, Last: 3}), 3)
		require.LessOrEqual(t, b.bytes, whole/90)
	})
}

func TestFollowBeginsWithTheLastRecordsAndGoesOn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		for range 10 {
			fill(t, c, 0, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []int64
		for r, err := range consumer.Follow(ctx, over(t, c), consumer.ReadConfig{Topic: "t", Last: 2}) {
			require.NoError(t, err)
			got = append(got, r.Offset)
			if r.Offset == 9 {
				fill(t, c, 0, 1)
			}
			if r.Offset == 10 {
				cancel()
			}
		}
		require.Equal(t, []int64{8, 9, 10}, got)
		for _, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", Last: -1}) {
			var wrong *consumer.ConfigError
			require.ErrorAs(t, err, &wrong)
		}
	})
}
