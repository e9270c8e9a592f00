package log

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fill appends n records, one at a time.
func fill(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		_, err := l.Append(t.Context(), record.String("", "k", fmt.Sprint(i)))
		require.NoError(t, err)
	}
}

// values reads the whole log.
func values(t *testing.T, l *Log) (vs []string) {
	t.Helper()
	next := l.StartOffset()
	for r, err := range l.Records(next) {
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Offset, next)
		next = r.Offset + 1
		vs = append(vs, string(r.Value))
	}
	return vs
}

func TestAppendedRecordsAreReadInOrderAlsoAfterReopening(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		for _, fsys := range []vfs.FS{vfs.OS(), vfs.Mem()} {
			dir := t.TempDir()
			cfg := Config{FS: fsys, SegmentBytes: 4096, Sync: policy}
			l, err := Open(dir, cfg)
			require.NoError(t, err)
			fill(t, l, 300)
			want := values(t, l)
			require.Len(t, want, 300)
			require.Equal(t, int64(300), l.EndOffset())
			require.Greater(t, len(l.Segments()), 3)
			require.NoError(t, l.Close())
			for range 2 {
				l, err = Open(dir, cfg)
				require.NoError(t, err)
				require.True(t, l.Recovery().Clean)
				require.Equal(t, want, values(t, l))
				require.NoError(t, l.Close())
			}
		}
	}
}

func TestFollowSeesWhatIsAppendedLater(t *testing.T) {
	l, err := Open(t.TempDir(), Config{Sync: SyncNever})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan string, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r, err := range l.Follow(ctx, 0) {
			if err != nil {
				return
			}
			got <- string(r.Value)
		}
	}()
	for i := range 5 {
		_, err := l.Append(t.Context(), record.String("", "", fmt.Sprint(i)))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), <-got)
	}
	cancel()
	<-done
	require.NoError(t, l.Close())
}
