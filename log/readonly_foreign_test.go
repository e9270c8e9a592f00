package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// foreignSegment writes a segment file with one record at each offset from base to last, as a
// broker does that writes no strata.state. The values name their writer.
func foreignSegment(t *testing.T, disk *vfs.MemFS, base, last int64, epoch int32, writer string) {
	var file []byte
	for offset := base; offset <= last; offset++ {
		var b record.Builder
		b.AppendKV(1, nil, fmt.Appendf(nil, "%s%d", writer, offset), nil)
		p := b.Bytes()
		record.SetBaseOffset(p, offset)
		record.SetLeaderEpoch(p, epoch)
		file = append(file, p...)
	}
	require.NoError(t, writeUnsynced(disk, filePath("t-0", base, segment.LogSuffix), file))
}

// A broker truncates its log, and begins another segment, while it is opened read-only. The
// records that the reader gets were all there at one moment.
func TestReadOnlyOpenMeetsABrokersTruncationAtAnyCall(t *testing.T) {
	t.Parallel()
	before, after := []string{"a0", "a1", "a2", "a3", "a4", "a5"}, []string{"a0", "a1", "a2", "b3", "b4", "b5"}
	for n := 1; ; n++ {
		disk := vfs.Mem()
		require.NoError(t, disk.MkdirAll("t-0", 0o755))
		foreignSegment(t, disk, 0, 1, 0, "a")
		foreignSegment(t, disk, 2, 3, 0, "a")
		foreignSegment(t, disk, 4, 5, 0, "a")
		reader := vfs.Faulty(disk)
		calls := 0
		stop := reader.Observe(vfs.Observer{Before: func(vfs.Event) {
			if calls++; calls == n {
				require.NoError(t, disk.Remove(filePath("t-0", 4, segment.LogSuffix)))
				foreignSegment(t, disk, 2, 2, 0, "a")
				foreignSegment(t, disk, 3, 5, 0, "b")
			}
		}})
		l, err := OpenReadOnly("t-0", Config{FS: reader})
		require.NoError(t, err, "call %d", n)
		var values []string
		for r, err := range l.Records(0) {
			// of records that were truncated since
			if errors.Is(err, ErrChanged) || errors.Is(err, ErrCorrupt) {
				values = nil
				break
			}
			require.NoError(t, err)
			values = append(values, string(r.Value))
		}
		stop()
		require.NoError(t, l.Close())
		if values != nil {
			require.Contains(t, [][]string{before, after}, values, "call %d", n)
		}
		if calls < n {
			require.Equal(t, before, values)
			require.Greater(t, n, 15)
			return
		}
	}
}

// A running broker writes its leader-epoch-checkpoint after the batches of a new epoch: these
// batches are complete.
func TestReadOnlyReadsAnEpochThatABrokerHasNotWrittenDown(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	require.NoError(t, disk.MkdirAll("t-0", 0o755))
	foreignSegment(t, disk, 0, 1, 1, "a")
	foreignSegment(t, disk, 2, 3, 2, "a")
	require.NoError(t, writeUnsynced(disk, filepath.Join("t-0", epochFile), []byte("0\n1\n1 0\n")))
	l, err := OpenReadOnly("t-0", Config{FS: disk})
	require.NoError(t, err)
	require.Equal(t, []string{"0: a0", "1: a1", "2: a2", "3: a3"}, valuesOf(t, l))
	require.NoError(t, l.Close())
}

// An abortingOwner takes the record at one offset for the marker of an aborted transaction that
// began one offset before it.
type abortingOwner struct {
	log *Log
	at  int64
}

func (o *abortingOwner) Admit(*Append) error      { return nil }
func (o *abortingOwner) Refused([]*Append, error) {}
func (o *abortingOwner) Durable(int64)            {}
func (o *abortingOwner) Written(as []*Append) {
	for _, a := range as {
		if a.LastOffset == o.at {
			_ = o.log.AppendAborted(segment.AbortedTxn{ProducerID: 1, FirstOffset: o.at - 1, LastOffset: o.at, LastStableOffset: o.at + 1})
		}
	}
}

// The first transaction of a log is aborted while the log is opened read-only. A reader that gets
// the end of the transaction also finds its abort, although the transaction index was created
// after the segment was opened.
func TestReadOnlyOpenMeetsTheFirstAbortedTransactionAtAnyCall(t *testing.T) {
	t.Parallel()
	for n, seen := 1, 0; ; n++ {
		disk := vfs.Mem()
		o := &abortingOwner{at: 4}
		l, err := Open("log", Config{FS: disk, Owner: o})
		require.NoError(t, err)
		o.log = l
		appendWords(t, l, "old", 3)
		reader := vfs.Faulty(disk)
		calls := 0
		stop := reader.Observe(vfs.Observer{Before: func(vfs.Event) {
			if calls++; calls == n {
				appendWords(t, l, "aborted", 2)
			}
		}})
		ro, err := OpenReadOnly("log", Config{FS: reader})
		stop()
		require.NoError(t, err, "call %d", n)
		if ro.EndOffset() == 5 {
			seen++
			aborted, err := ro.AbortedTxns(0, 5)
			require.NoError(t, err)
			require.Len(t, aborted, 1, "call %d", n)
		}
		require.NoError(t, errors.Join(ro.Close(), l.Close()))
		if calls < n {
			require.Greater(t, seen, 3)
			return
		}
	}
}
