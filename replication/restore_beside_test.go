package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// restoreBeside restores from to to, and calls other just before the file system call with number
// at. happened is false if there were fewer calls.
func restoreBeside(t *testing.T, disk *vfs.MemFS, from, to string, at int64, other func()) (happened bool, err error) {
	fsys := vfs.Faulty(disk) // so that the calls of other are not counted
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.N == at {
			happened = true
			other()
		}
	}})
	defer stop()
	return happened, Restore(t.Context(), fsys, from, to)
}

// saved creates a cluster of several brokers with a topic of this name, closes it, and returns its
// id.
func saved(t *testing.T, disk *vfs.MemFS, dir, name string, brokers int) (id string) {
	c, err := Open(Config{Dir: dir, FS: disk, Brokers: brokers})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: brokers}))
	require.NoError(t, c.Close())
	return c.ClusterID()
}

// requireCluster requires that the directory is the whole cluster with this id and topic.
func requireCluster(t *testing.T, disk *vfs.MemFS, dir, id, name string, brokers int, where string) {
	t.Helper()
	c, err := Open(Config{Dir: dir, FS: disk})
	require.NoError(t, err, where)
	requireWhole(t, c, brokers, where)
	require.Equal(t, id, c.ClusterID(), where)
	_, err = c.Topic(t.Context(), name)
	require.NoError(t, err, where)
	require.NoError(t, c.Close(), where)
}

// Checklist row D12. A cluster is founded in the target of a restore, before any of its calls. One
// of the two has the directory, and the other has changed nothing in it.
func TestRestoreBesideAFoundingLeavesItAlone(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		for _, stays := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d brokers, stays open: %v", brokers, stays), func(t *testing.T) {
				t.Parallel()
				beside := 0
				for at, happened := int64(1), true; happened; at++ {
					disk, where := vfs.Mem(), fmt.Sprintf("before call %d", at)
					id := saved(t, disk, "saved", "orders", 3)
					var founded *Cluster
					var refused, err error
					happened, err = restoreBeside(t, disk, "saved", "copy", at, func() {
						founded, refused = Open(Config{Dir: "copy", FS: disk, Brokers: brokers})
						if refused == nil && founded.ClusterID() != id {
							require.NoError(t, founded.CreateTopic(t.Context(), "others", topic.Config{Partitions: brokers}), where)
						}
						if refused == nil && !stays {
							require.NoError(t, founded.Close(), where)
						}
					})
					switch {
					case refused == nil && founded != nil && founded.ClusterID() != id:
						beside++
						require.ErrorIs(t, err, fs.ErrExist, where)
						if stays {
							require.NoError(t, founded.Close(), where)
						}
						requireCluster(t, disk, "copy", founded.ClusterID(), "others", brokers, where)
					default:
						require.NoError(t, err, where)
						if founded != nil && stays {
							require.NoError(t, founded.Close(), where)
						}
						require.True(t, refused == nil || errors.Is(refused, ErrUnfinished) || brokers == 1 && errors.Is(refused, ErrMissing), "%s: %v", where, refused)
						requireCluster(t, disk, "copy", id, "orders", 3, where)
					}
					entries, err := disk.ReadDir("copy")
					require.NoError(t, err, where)
					require.LessOrEqual(t, len(entries), 3, "%s: %v", where, entries)
				}
				require.Greater(t, beside, 10)
			})
		}
	}
}

// Checklist row D12. Two restores to one directory run at once. At least one fails. The directory
// is whole or does not open.
func TestRestoresBesideEachOtherDoNotMix(t *testing.T) {
	won := 0
	for at, happened := int64(1), true; happened; at++ {
		disk, where := vfs.Mem(), fmt.Sprintf("before call %d", at)
		one := saved(t, disk, "saved", "orders", 1)
		two := saved(t, disk, "other", "payments", 3)
		var first, second error
		happened, second = restoreBeside(t, disk, "saved", "copy", at, func() { first = Restore(t.Context(), disk, "other", "copy") })
		switch {
		case happened && first == nil:
			won++
			require.ErrorIs(t, second, fs.ErrExist, where)
			requireCluster(t, disk, "copy", two, "payments", 3, where)
		default:
			require.NoError(t, second, where)
			require.True(t, !happened || errors.Is(first, fs.ErrExist), "%s: %v", where, first)
			requireCluster(t, disk, "copy", one, "orders", 1, where)
		}
	}
	require.Greater(t, won, 5)
}

// Checklist row D18. The source of a restore is founded, or gets another broker, before any call
// of the restore. The copy is whole, or nothing is left of it.
func TestRestoreOfWhatIsFoundedMeanwhileIsWholeOrNothing(t *testing.T) {
	for _, was := range []int{0, 1} {
		t.Run(fmt.Sprintf("from %d brokers to 3", was), func(t *testing.T) {
			t.Parallel()
			refused := 0
			for at, happened := int64(1), true; happened; at++ {
				disk, where := vfs.Mem(), fmt.Sprintf("before call %d", at)
				id := ""
				if was > 0 {
					id = saved(t, disk, "data", "orders", was)
				}
				var err error
				happened, err = restoreBeside(t, disk, "data", "copy", at, func() {
					c, err := Open(Config{Dir: "data", FS: disk, Brokers: 3})
					if err != nil {
						require.ErrorIs(t, err, ErrLocked, where)
						return
					}
					if id = c.ClusterID(); was == 0 {
						require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}), where)
					}
					require.NoError(t, c.Close(), where)
				})
				if err == nil {
					requireCluster(t, disk, "copy", id, "orders", 1, where)
					continue
				}
				refused++
				require.True(t, errors.Is(err, ErrLocked) || was == 0 && errors.Is(err, ErrForeign), "%s: %v", where, err)
				entries, err := disk.ReadDir("copy")
				require.True(t, len(entries) == 0 || err != nil, where)
			}
			require.Positive(t, refused)
		})
	}
}
