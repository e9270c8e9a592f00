package compact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// swapBed is a log in which a compaction merges three segments. Two of them keep records, and one
// has an aborted transaction.
func swapBed(t testing.TB) *compactBed {
	b := newCompactBed(t)
	b.put(record.None, "a=1", "b=1")
	b.putTxn(9, 0, "b=no")
	b.end(9, record.ControlAbort, 2)
	b.roll(0)
	b.put(record.LZ4, "a=2", "c=1", "d=1")
	b.roll(0)
	b.put(record.None, "c=2")
	b.roll(0)
	b.put(record.None, "d=2")
	require.NoError(t, b.active().Sync())
	return b
}

func requireNoLeftovers(t *testing.T, fsys vfs.FS) {
	t.Helper()
	entries, err := fsys.ReadDir(bedDir)
	require.NoError(t, err)
	for _, e := range entries {
		for _, suffix := range []string{cleanedSuffix, swapSuffix, ".deleted"} {
			require.False(t, strings.HasSuffix(e.Name(), suffix), "%s is left", e.Name())
		}
	}
}

func TestResultForSegmentsThatAreGoneIsForgotten(t *testing.T) {
	t.Parallel()
	b := swapBed(t)
	before := b.dump()
	gone := fmt.Errorf("truncated meanwhile")
	b.c.Replace = func(*Result) error { return gone }
	_, err := b.c.Run(t.Context())
	require.ErrorIs(t, err, gone)
	require.Equal(t, before, b.dump())
	requireNoLeftovers(t, b.fs)
}

// After the commit the manifest may name the files.
func TestCommittedResultStaysWhateverFailsAfterwards(t *testing.T) {
	t.Parallel()
	b := swapBed(t)
	failed := fmt.Errorf("which manifest is there is not known")
	b.c.Replace = func(r *Result) error { return r.Commit(func() error { return failed }) }
	_, err := b.c.Run(t.Context())
	require.ErrorIs(t, err, failed)
	_, err = b.fs.Stat(filePath(bedDir, 0, ".log.cleaned"))
	require.NoError(t, err)
}
