package log

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// RELIABILITY D2: a kill or a power cut at any call of a retention leaves a log that opens. It has
// a suffix of its records, with at least the records that retention keeps.
func TestPowerCutAtEveryStepOfRetention(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		disk := vfs.Mem()
		l := openClean(t, disk, Config{Sync: policy, RetentionBytes: 1, RetentionAge: Unlimited})
		for i := range 5 {
			appendKV(t, l, fmt.Sprintf("k=%d", i))
			require.NoError(t, l.Roll())
		}
		appendKV(t, l, "k=5")
		require.NoError(t, l.Sync())
		before := logDump(t, l)
		cuts := moments(disk, randomCrashes(disk, 5), func() { clean(t, l) })
		after := logDump(t, l)
		require.Equal(t, "5:k=5", after)
		require.Greater(t, len(cuts), 50)
		for _, cut := range cuts {
			again, err := Open(bedDir, Config{FS: cut.disk})
			require.NoError(t, err, "policy %v, crash before %v", policy, cut.before)
			got := logDump(t, again)
			require.True(t, strings.HasSuffix(before, got) && strings.HasSuffix(got, after), "policy %v, crash before %v: %s", policy, cut.before, got)
			require.Equal(t, l.EndOffset(), again.EndOffset())
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}
