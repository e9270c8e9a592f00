package compact

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// Empty segments that are too far apart for the index of one segment are merged when there is
// nothing else to compact.
func TestEmptySegmentsFarApartAreMerged(t *testing.T) {
	b := newCompactBed(t)
	const segments = 10
	for i := range segments {
		b.put(record.None, fmt.Sprint("k=", i))
		b.roll(math.MaxInt32)
	}
	b.put(record.None, "k=last")
	b.roll(0)
	b.compact()
	require.Greater(t, len(b.c.Segments), segments)
	before := b.dump()
	rep := b.compact()
	require.NotEmpty(t, rep.Skipped)
	require.Equal(t, 3, len(b.c.Segments), "without batches, with the last one, and active")
	require.Equal(t, strings.TrimLeft(before, "| "), strings.TrimLeft(b.dump(), "| "))
	require.Equal(t, int64(0), b.c.Segments[0].Base())
	b.compact()
	require.Equal(t, 3, len(b.c.Segments))
}

// A segment of the largest size is compacted although the delete horizons of its tombstones would
// make it larger. Some tombstones get a horizon, the others get it in a later pass.
func TestFullSegmentWithTombstonesIsCompacted(t *testing.T) {
	b := newCompactBed(t)
	for i := range 50 {
		b.put(record.None, fmt.Sprint("gone", i), fmt.Sprint("k", i, "=v"))
	}
	b.put(record.None, "k0=w")
	b.roll(0)
	full := b.c.Segments[0].Size()
	b.c.room = full
	rep := b.compact()
	require.Empty(t, rep.Skipped)
	require.LessOrEqual(t, b.c.Segments[0].Size(), full)
	dump := b.dump()
	require.NotContains(t, dump, "k0=v", "its later value is there")
	for i := range 50 {
		require.Contains(t, dump, fmt.Sprint("gone", i), "no tombstone goes before its time")
	}
	require.NotEmpty(t, b.compact().Skipped, "it is not written again and again")

	b.c.room = 0
	b.c.Now += 10_000
	b.put(record.None, "k=v")
	b.roll(0)
	b.compact()
	b.c.Now += 10_000
	b.put(record.None, "k=v")
	b.roll(0)
	b.compact()
	require.NotContains(t, b.dump(), "gone", "with room, all of them have had their horizon")
}
