package share

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Invalid acknowledgements are rejected before the check whether there is a record to acknowledge,
// as in Kafka. This also holds for a share-partition that has not begun.
func TestAcknowledgementsThatMakeNoSenseAreRefusedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		w.makeTopic()
		tp := TopicPartition{TopicPartition: record.TopicPartition{Topic: "jobs"}, TopicID: w.topic}
		for _, acks := range [][]Ack{
			{{First: 3, Last: 2, Types: []AckType{Accept}}}, {{First: -1, Last: 2, Types: []AckType{Accept}}}, {{First: 1, Last: 3, Types: []AckType{Accept, Accept}}},
			{{First: 1, Last: 1, Types: []AckType{9}}}, {{First: 1, Last: 3, Types: []AckType{Accept}}, {First: 2, Last: 4, Types: []AckType{Accept}}},
		} {
			err := w.c.Acknowledge(t.Context(), "g", "a", tp, acks)
			require.ErrorIs(t, err, ErrInvalidRequest)
			require.NotErrorIs(t, err, ErrNotInitialized)
		}
		require.ErrorIs(t, w.c.Acknowledge(t.Context(), "g", "a", tp, []Ack{{First: 1, Last: 1, Types: []AckType{Accept}}}), ErrNotInitialized)
	})
}
