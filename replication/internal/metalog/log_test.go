package metalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// A copy that is not in sync may have an epoch that a former controller began on it. The next
// controller begins neither this epoch nor a lower one, because these could have other batches.
func TestNextControllersEpochIsAboveThoseOfCopiesOutOfSync(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, l *Copy){
		"the epoch is the copy's newest": func(t *testing.T, l *Copy) {},
		"the epoch was cut off the copy": func(t *testing.T, l *Copy) { require.NoError(t, l.cut(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			inSync := func() *Copy {
				l := openCopyOn(t, vfs.Mem())
				require.NoError(t, l.SetLeaderEpoch(3))
				return l
			}
			late := copyWithUnusedEpoch(t, vfs.Mem()) // 7
			prepare(t, late)
			m := New(Config{})
			m.leader = 1
			m.copies = map[int32]*Copy{1: inSync(), 2: inSync(), 4: inSync()}
			m.apart = map[int32]*Copy{3: late}
			require.NoError(t, m.drop(map[int32]error{1: errDisk}, nil))
			require.Equal(t, int32(2), m.Controller())
			for _, id := range []int32{2, 4} {
				require.Greater(t, m.copies[id].Promised(), int32(7), "broker %d", id)
			}
			require.NoError(t, m.Close())
		})
	}
}
