package log_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// Positions in a segment are int32. A sparse file of 1 TiB in place of a segment is damage, after
// a kill and after a proper close. The search for its last batch would take hours.
func TestSparseSegmentIsDamageAndIsNotReadToItsEnd(t *testing.T) {
	for _, closed := range []bool{true, false} {
		dir := t.TempDir()
		l, err := log.Open(dir, log.Config{})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), record.String("", "k", "v"))
		require.NoError(t, err)
		if closed {
			require.NoError(t, l.Close())
		}
		copied := t.TempDir()
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		_ = l.Close()
		require.NoError(t, os.Truncate(filepath.Join(copied, "00000000000000000000.log"), 1<<40))
		opened := make(chan error, 1)
		go func() {
			l, err := log.Open(copied, log.Config{})
			if err == nil {
				err = errors.Join(errors.New("it opens"), l.Close())
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			require.ErrorIs(t, err, log.ErrCorrupt, "closed: %t", closed)
			require.ErrorContains(t, err, "file has 1099511627776 bytes")
		case <-time.After(20 * time.Second):
			t.Fatal("still reading after 20 s")
		}
	}
}
