package verify

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// checkWhile checks a partition. It calls do with the number of attempts begun, each time it opens
// a file of the partition.
func checkWhile(t *testing.T, m *vfs.MemFS, dir string, do func(attempt int)) (Counts, []Finding) {
	attempts, busy := 0, false
	stop := m.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if busy || e.Op != vfs.OpOpen || !strings.HasPrefix(e.Name, dir) {
			return
		}
		if strings.HasSuffix(e.Name, "leader-epoch-checkpoint") {
			attempts++
		}
		busy = true
		do(attempts)
		busy = false
	}})
	defer stop()
	return check(t, m, dir)
}

// While a writer changes a partition, damage that is missing in a second read is not reported.
// Lasting damage is.
func TestDamageInAPartitionThatChangesIsBelievedWhenItStays(t *testing.T) {
	const dir = "/log/transactions-0"
	name := filepath.Join(dir, "00000000000000000010.log")
	m := golden(t)
	good := read(t, m, name)
	bad := append([]byte(nil), good...)
	bad[100]++
	other := []byte("x")
	for _, repairedAt := range []int{1, 2, 3, 4, -1} {
		write(t, m, name, bad)
		last := 0
		n, fs := checkWhile(t, m, dir, func(attempt int) {
			if last = attempt; attempt == repairedAt {
				write(t, m, name, good)
			}
			other = append(other, 'x') // the directory changes all the time
			write(t, m, filepath.Join(dir, "of-the-writer"), other)
		})
		require.Equal(t, n.Damages, len(damages(fs)), "%d", repairedAt)
		switch {
		case repairedAt > 0 && repairedAt <= agreeing:
			require.Empty(t, damages(fs), "repaired in attempt %d", repairedAt)
			require.LessOrEqual(t, last, agreeing)
		default:
			require.Equal(t, agreeing, last)
			require.NotEmpty(t, damages(fs), "never repaired")
			require.Contains(t, damages(fs)[0].Path, name)
		}
	}
	write(t, m, name, bad)
	attempts := 0
	_, fs := checkWhile(t, m, dir, func(attempt int) { attempts = attempt })
	require.NotEmpty(t, damages(fs))
	require.Equal(t, 1, attempts, "nothing changes, so one look is enough")
}
