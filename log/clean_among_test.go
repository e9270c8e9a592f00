package log

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Values are numbers in the order of their appends. Records that a truncation cuts off have never
// been compacted, so their keys have their previous values again.
func TestCleanAmongAppendersReadersAndTruncation(t *testing.T) {
	t.Parallel()
	cfg := compacting
	cfg.SegmentBytes, cfg.Sync = 4000, SyncNever
	l := openClean(t, vfs.Mem(), cfg)
	const keys = 40
	a := &cutAppender{t: t, log: l, rnd: rand.New(rand.NewPCG(1, 1))}
	for k := range keys {
		a.append(k)
	}
	require.NoError(t, l.Roll())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		for i := range 3000 {
			if a.append(a.rnd.IntN(keys)); i%100 == 99 {
				a.cut()
			}
		}
	})
	scans := make([]int, 2)
	for i := range scans {
		wg.Go(func() {
			for ctx.Err() == nil {
				scanTable(t, l, keys)
				scans[i]++
			}
		})
	}
	removed, passes := 0, 0
	wg.Go(func() {
		for ctx.Err() == nil {
			rep, err := l.Clean(context.Background())
			require.NoError(t, err)
			if rep.Compaction.Skipped == "" {
				passes++
			}
			removed += rep.Compaction.SegmentsBefore - rep.Compaction.SegmentsAfter
		}
	})
	wg.Wait()
	require.Equal(t, a.table(), lastValues(logDump(t, l)))
	clean(t, l)
	require.Equal(t, a.table(), lastValues(logDump(t, l)))
	for _, s := range l.Segments() {
		require.LessOrEqual(t, s.Size, int64(4000))
	}
	require.NoError(t, l.Close())
	require.Positive(t, a.cuts)
	t.Logf("%d cuts, %d passes that removed %d segments, %v scans", a.cuts, passes, removed, scans)
}

// A cutAppender appends to a log, one record at a time, and sometimes truncates its end.
type cutAppender struct {
	t    *testing.T
	log  *Log
	rnd  *rand.Rand
	next int   // value of the next record
	cuts int   // truncations that took records
	kept []int // by offset: the key of the record; values are in values
	vals []int // by offset
}

func (a *cutAppender) append(key int) {
	appendKV(a.t, a.log, fmt.Sprintf("k%d=%d", key, a.next))
	a.kept, a.vals = append(a.kept, key), append(a.vals, a.next)
	a.next++
}

// cut truncates up to 20 records of the active segment, which no compaction has read.
func (a *cutAppender) cut() {
	segments := a.log.Segments()
	to := max(segments[len(segments)-1].BaseOffset, a.log.EndOffset()-int64(a.rnd.IntN(20)))
	if to < a.log.EndOffset() {
		a.cuts++
	}
	require.NoError(a.t, a.log.TruncateTo(to))
	a.kept, a.vals = a.kept[:to], a.vals[:to]
}

// table returns the last value of each key.
func (a *cutAppender) table() map[string]string {
	table := map[string]string{}
	for i, key := range a.kept {
		table[fmt.Sprint("k", key)] = fmt.Sprint(a.vals[i])
	}
	return table
}

// scanTable reads a changing log until it has seen every key. Offsets and values ascend. A record
// that a compaction removes has a later record of its key, which the scan reaches.
func scanTable(t *testing.T, l *Log, keys int) {
	next, newest := int64(0), -1
	for found := map[string]bool{}; len(found) < keys; {
		before := next
		// up to the end, which may be before the later record
		for r, err := range l.Records(next) {
			require.NoError(t, err)
			require.GreaterOrEqual(t, r.Offset, next)
			value, err := strconv.Atoi(string(r.Value))
			require.NoError(t, err)
			require.Greater(t, value, newest)
			next, newest = r.Offset+1, value
			found[string(r.Key)] = true
		}
		require.True(t, len(found) == keys || next > before, "at the end, at %d, after %d keys", next, len(found))
	}
}
