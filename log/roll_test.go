package log_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

// A state that names a segment is useless on a disk without that segment. After a power cut during
// a roll that keeps any of the directory's entries, the log opens with all acknowledged records.
func TestPowerCutDuringARollLeavesALogThatOpens(t *testing.T) {
	for _, policy := range []log.SyncPolicy{log.SyncOnAck, log.SyncNever} {
		l, fsys := openMem(t, exploreConfig(policy))
		for id := range int64(5) {
			_, err := appendID(l, id)
			require.NoError(t, err)
		}
		require.NoError(t, l.Sync())
		type image struct {
			fs    *vfs.MemFS
			event string
		}
		var mu sync.Mutex // guards images: rolled segments are synced in the background
		var images []image
		stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
			mu.Lock()
			defer mu.Unlock()
			for seed := range uint64(20) {
				images = append(images, image{fsys.CrashWith(vfs.CrashOptions{Seed: seed, Data: vfs.CrashKept, Sizes: vfs.CrashKept}), fmt.Sprintf("%s, seed %d", e, seed)})
			}
		}})
		require.NoError(t, l.Roll())
		stop()
		require.NoError(t, l.Close()) // and the sync has ended
		require.Greater(t, len(images), 100)
		for _, cut := range images {
			cfg := exploreConfig(policy)
			cfg.FS = cut.fs
			l, err := log.Open(exploreDir, cfg)
			require.NoError(t, err, "before %s", cut.event)
			require.EqualValues(t, 5, l.EndOffset(), "before %s", cut.event)
			require.NoError(t, l.Close())
		}
	}
}
