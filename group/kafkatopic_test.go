package group

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/kafkatopic"
	"github.com/stratalog/strata/record"
)

func TestKafkasOffsetsTopicIsTakenOver(t *testing.T) {
	store := newFakeStore(map[string]int32{"grouped": 4})
	store.topics.Topics["grouped"] = TopicInfo{Partitions: 4} // with an unknown id
	_, err := store.OffsetsTopic(ctx, OffsetsShape{Partitions: 4})
	require.NoError(t, err)
	kafkatopic.Each(t, func(b *record.Batch, _ record.Record) {
		for _, group := range []int{0, 3} {
			l := store.logs[group]
			if (group == 3) == (b.IsTransactional() || b.ProducerID >= 0) && l.end == b.BaseOffset {
				l.data, l.end = append(l.data, b.Bytes()...), b.NextOffset()
			}
		}
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for _, g := range []string{"group-classic", "group-consumer"} {
			got, err := c.FetchOffsets(ctx, g, nil)
			require.NoError(t, err)
			want := map[record.TopicPartition]record.Committed{}
			for p := range int32(4) {
				want[tps("grouped", p)[0]] = record.Committed{Offset: int64(5*p + 1), Metadata: "note " + string('0'+p)}
			}
			require.Equal(t, want, got, g)
		}
		got, err := c.FetchOffsets(ctx, "group-transactional", nil)
		require.NoError(t, err)
		require.Equal(t, map[record.TopicPartition]record.Committed{{Topic: "grouped"}: {Offset: 7, LeaderEpoch: -1}}, got, "the committed transaction's, not the aborted one's")
		infos, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, infos, 3)
	})
}
