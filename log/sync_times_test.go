package log

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Each sync takes 20 ms. The bucket of 20 ms ends at 24.576 ms.
func TestTimesOfSyncsAreCounted(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy SyncPolicy
		share  bool
		syncs  int64
	}{{"on ack", SyncOnAck, false, 5}, {"journal", SyncOnAck, true, 5}, {"by hand", SyncNever, false, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				d, err := OpenDirectory(bedDir, DirectoryConfig{FS: disk})
				require.NoError(t, err)
				l, err := Open(bedDir+"/t-0", Config{FS: disk, Dir: d, Sync: tc.policy})
				require.NoError(t, err)
				_, err = l.Append(t.Context(), record.String("", "k", "v"))
				require.NoError(t, err)
				require.NoError(t, l.Sync())
				if tc.share {
					require.NoError(t, d.alwaysShare())
				}
				before := d.SyncTimes()
				slow := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Delay: 20 * time.Millisecond, Times: vfs.Always})
				for range 5 {
					_, err := l.Append(t.Context(), record.String("", "k", "v"))
					require.NoError(t, err)
				}
				require.NoError(t, l.SyncRecords())
				slow()
				times := d.SyncTimes()
				times = times.Since(before)
				require.Equal(t, tc.syncs, times.Count())
				require.Equal(t, 20*time.Millisecond, times.Mean())
				require.Equal(t, 24576*time.Microsecond, times.Quantile(.99))
				require.Equal(t, d.SyncTimes(), l.SyncTimes())
				require.NoError(t, l.Close())
				require.NoError(t, d.Close())
			})
		})
	}
}
