package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFranzGoProducesWithEveryCodecAndReadsItBack(t *testing.T) {
	_, addr := serve(t, Config{})
	ctx := t.Context()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ProducerBatchCompression(codec),
			kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(name))
		require.NoError(t, err)
		for i := range 100 {
			cl.Produce(ctx, kgo.KeyStringRecord(name, fmt.Sprintf("%s-%d", name, i)), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, cl.Flush(ctx))
		cl.Close()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"none": {0: kgo.NewOffset().AtStart()}, "gzip": {0: kgo.NewOffset().AtStart()}, "snappy": {0: kgo.NewOffset().AtStart()},
		"lz4": {0: kgo.NewOffset().AtStart()}, "zstd": {0: kgo.NewOffset().AtStart()},
	}))
	require.NoError(t, err)
	defer cl.Close()
	read := map[string]int{}
	for total := 0; total < 500; {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			require.Equal(t, fmt.Sprintf("%s-%d", r.Topic, read[r.Topic]), string(r.Value))
			require.EqualValues(t, read[r.Topic], r.Offset)
			read[r.Topic]++
			total++
		})
	}
}

func TestVersionsFromTheFutureAreAnsweredInVersionZero(t *testing.T) {
	_, addr := serve(t, Config{})
	c := dial(t, addr)
	_, err := c.nc.Write([]byte{0, 0, 0, 17, 0, 18, 0, 99, 0, 0, 0, 7, 0, 1, 'x', 0, 0xff, 0xff, 0xff, 0xff, 0xff})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}, c.frame())

	// for a negative version the header has no tags
	_, err = c.nc.Write([]byte{0, 0, 0, 11, 0, 18, 0x80, 0, 0, 0, 0, 8, 0, 1, 'x'})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 8, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4}, c.frame())
}
