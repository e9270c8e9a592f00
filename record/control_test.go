package record

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkersAreTheBytesOfKafka(t *testing.T) {
	t.Parallel()
	p := ControlBatch([]byte("before"), ControlCommit, 5, ControlInfo{BaseOffset: 7, LeaderEpoch: 3, TimestampMs: 2000, ProducerID: 4000, ProducerEpoch: 2})
	require.Equal(t, goldenCommit, hex.EncodeToString(p[6:]))
	b, _, err := Parse(p[6:])
	require.NoError(t, err)
	kind, epoch, err := b.Control()
	require.NoError(t, err)
	require.Equal(t, ControlCommit, kind)
	require.EqualValues(t, 5, epoch)

	p = ControlBatch(nil, ControlAbort, 1, ControlInfo{})
	b, _, err = Parse(p)
	require.NoError(t, err)
	kind, _, err = b.Control()
	require.NoError(t, err)
	require.Equal(t, ControlAbort, kind)
}

func TestControlRecordsThatAreNone(t *testing.T) {
	t.Parallel()
	control := func(key, value []byte) *Batch {
		var b Builder
		b.attributes = attrControl
		b.AppendKV(1, key, value, nil)
		batch, _, err := Parse(b.Bytes())
		require.NoError(t, err)
		return batch
	}
	for _, b := range []*Batch{
		control(nil, nil),
		control([]byte{0, 0, 0}, nil),
		control([]byte{0xff, 0xff, 0, 0}, nil),
		control([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0}),
	} {
		_, _, err := b.Control()
		require.ErrorIs(t, err, ErrCorrupt)
	}
	kind, epoch, err := control([]byte{0, 0, 0, 9}, nil).Control()
	require.NoError(t, err, "unknown types are for the caller to skip")
	require.EqualValues(t, 9, kind)
	require.EqualValues(t, -1, epoch)
	kind, epoch, err = control([]byte{0, 3, 0, 0, 1, 1}, []byte{0, 3, 0, 0, 0, 8, 1}).Control()
	require.NoError(t, err, "higher versions are read as far as they are known")
	require.Equal(t, ControlAbort, kind)
	require.EqualValues(t, 8, epoch)

	b, _, err := Parse(golden(t, goldenOne))
	require.NoError(t, err)
	_, _, err = b.Control()
	require.ErrorIs(t, err, ErrCorrupt)

	b, _, err = Parse(golden(t, goldenCommit))
	require.NoError(t, err)
	p, _, err := Filter(nil, b, FilterOptions{KeepEmpty: true}, func(*Record) bool { return false })
	require.NoError(t, err)
	b, _, err = Parse(p)
	require.NoError(t, err)
	_, _, err = b.Control()
	require.ErrorIs(t, err, ErrEmpty, "a marker that compaction emptied")
}

// The transaction markers in Kafka's own log: four commits, three aborts.
func TestMarkersOfKafkaAreRead(t *testing.T) {
	t.Parallel()
	count := map[ControlType]int{}
	for _, b := range kafkaBatches(t)["transactions-0"] {
		if b.IsControl() {
			kind, _, err := b.Control()
			require.NoError(t, err)
			require.Equal(t, 78, b.Size())
			count[kind]++
		}
	}
	require.Equal(t, map[ControlType]int{ControlCommit: 4, ControlAbort: 3}, count)
}
