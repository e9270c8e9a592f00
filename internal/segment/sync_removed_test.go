package segment

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// A segment is removed during a sync, and the removal closes its descriptor. The sync would close
// it too, since too many are open. After two releases the descriptor would never be closed.
func TestDescriptorOfASegmentThatIsRemovedDuringASyncIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, files := vfs.Mem(), NewFileCache(1)
		var open atomic.Int64
		disk.Observe(vfs.Observer{After: func(e vfs.Event, err error) {
			switch {
			case err == nil && e.Op&(vfs.OpOpen|vfs.OpCreate) != 0:
				open.Add(1)
			case e.Op == vfs.OpClose:
				open.Add(-1)
			}
		}})
		segments := twoSegments(t, disk, files)
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: time.Second})
		synced := make(chan error)
		go func() { synced <- segments[0].Sync() }()
		synctest.Wait()
		require.NoError(t, segments[0].Remove())
		require.NoError(t, <-synced)
		require.NoError(t, segments[1].Close())
		require.Zero(t, open.Load())
	})
}
