package log

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Records share chunks of memory: kept parts of a record must not change when later records are
// read.
func TestKeptRecordsDoNotChangeWhenMoreIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := Open("/log", Config{FS: vfs.Mem(), SegmentBytes: 2 << 20})
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		n := 0
		for range rapid.IntRange(1, 40).Draw(t, "batches") {
			var rs []record.Record
			size := rapid.SampledFrom([]int{10, 1000, 30_000}).Draw(t, "size")
			for range rapid.IntRange(1, 20).Draw(t, "records") {
				v := make([]byte, size)
				copy(v, fmt.Sprint(n))
				v[size-1] = byte(n)
				rs = append(rs, record.Record{Value: v, Timestamp: time.UnixMilli(1)})
				n++
			}
			_, err := l.Append(context.Background(), rs...)
			require.NoError(t, err)
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		var kept []record.Record
		for r, err := range l.Records(int64(from)) {
			require.NoError(t, err)
			kept = append(kept, r)
		}
		require.Len(t, kept, n-from)
		for i, r := range kept {
			require.EqualValues(t, from+i, r.Offset)
			want := fmt.Sprint(from + i)
			require.Equal(t, want, string(r.Value[:len(want)]))
			require.Equal(t, byte(from+i), r.Value[len(r.Value)-1])
			require.LessOrEqual(t, cap(r.Value), len(r.Value), "no room to write to the next one")
		}
	})
}

func TestMemoryForRecordsGrowsWithWhatIsRead(t *testing.T) {
	var m readMemory
	dst, size := m.next()
	require.Nil(t, dst, "one read may be all there is")
	require.Equal(t, readBytes, size)
	m.took(make([]byte, 1000))
	dst, _ = m.next()
	require.Nil(t, dst, "it was short")

	m.batch = 100_000
	m.took(make([]byte, readBytes))
	var chunks []int
	for range 40 {
		dst, size = m.next()
		require.GreaterOrEqual(t, size, 2*m.batch)
		require.Less(t, size, 3*m.batch)
		require.GreaterOrEqual(t, cap(dst), size)
		if m.chunk == cap(dst) {
			chunks = append(chunks, m.chunk)
		}
		m.took(append(dst, make([]byte, 2*m.batch)...))
	}
	require.Equal(t, []int{512 << 10, 1 << 20, 2 << 20, 2 << 20}, chunks[:4])

	for m.total < manyBytes {
		dst, _ = m.next()
		m.took(append(dst, make([]byte, 2*m.batch)...))
	}
	for cap(m.free) >= m.size { // the rest of the last chunk
		dst, _ = m.next()
		m.took(append(dst, make([]byte, 2*m.batch)...))
	}
	_, _ = m.next()
	require.Equal(t, maxChunkBytes, m.chunk, "whoever has read so much reads more")

	m.batch = 6 << 20 // one read for a large batch
	dst, size = m.next()
	require.GreaterOrEqual(t, size, m.batch)
	require.LessOrEqual(t, size, maxReadBytes)
	require.GreaterOrEqual(t, cap(dst), size)
}
