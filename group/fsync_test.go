package group

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// groupOf returns a group's offsets; nil if there is no such group.
func groupOf(t *testing.T, c *Coordinator, id string) record.Offsets {
	t.Helper()
	info, err := c.Describe(ctx, id)
	if errors.Is(err, ErrGroupNotFound) {
		return nil
	}
	require.NoError(t, err)
	require.Equal(t, Empty, info.State)
	got, err := c.FetchOffsets(ctx, id, nil)
	require.NoError(t, err)
	o := record.Offsets{}
	for tp, co := range got {
		o[tp] = co.Offset
	}
	return o
}

// After a failed fsync it is open whether the change is stored. The process continues with the
// state before, and a restart has that state or the whole change.
func TestChangeWhoseFsyncFailedIsThereWholeOrNotAtAllAfterARestart(t *testing.T) {
	before := record.Offsets{}
	for p := range int32(4) {
		before[record.TopicPartition{Topic: "t", Partition: p}] = int64(10 + p)
	}
	changes := map[string]struct {
		do    func(c *Coordinator) error
		after record.Offsets
	}{
		"commit": {func(c *Coordinator) error {
			_, err := c.CommitOffsets(ctx, commitOf("g", record.Offsets{{Topic: "t"}: 99}))
			return err
		}, with(before, record.Offsets{{Topic: "t"}: 99})},
		"delete offsets": {func(c *Coordinator) error {
			_, err := c.DeleteOffsets(ctx, "g", tps("t", 0, 1, 2)...)
			return err
		}, record.Offsets{{Topic: "t", Partition: 3}: 13}},
		"delete the group": {func(c *Coordinator) error { return c.DeleteGroup(ctx, "g") }, nil},
		"reset": {func(c *Coordinator) error {
			return c.ResetOffsets(ctx, "g", record.Offsets{{Topic: "t"}: 0, {Topic: "t", Partition: 1}: 0})
		}, with(before, record.Offsets{{Topic: "t"}: 0, {Topic: "t", Partition: 1}: 0})},
		"rewind": {func(c *Coordinator) error {
			_, err := c.RewindGroup(ctx, "g", ToEarliest())
			return err
		}, with(before, record.Offsets{{Topic: "t"}: 0, {Topic: "t", Partition: 1}: 0, {Topic: "t", Partition: 2}: 0, {Topic: "t", Partition: 3}: 0})},
	}
	restarts := map[string]func(fs *vfs.MemFS) *vfs.MemFS{"closed": nil, "killed": (*vfs.MemFS).Kill}
	for seed := range uint64(3) {
		restarts[fmt.Sprint("power lost ", seed)] = func(fs *vfs.MemFS) *vfs.MemFS { return fs.Crash(seed) }
	}
	for name, change := range changes {
		for how, restart := range restarts {
			t.Run(name+"/"+how, func(t *testing.T) {
				fs := vfs.Mem()
				var left *vfs.MemFS
				broken := errors.New("no such device")
				closed := withClusterUntilClosed(t, fs, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
					commit(t, c, commitOf("g", before))
					fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Err: broken})
					err := change.do(c)
					require.ErrorIs(t, err, broken)
					require.Equal(t, before, groupOf(t, c, "g"), "what is not known to be stored is not shown")
					require.ErrorIs(t, change.do(c), broken, "nothing is confirmed behind it")
					require.Equal(t, before, groupOf(t, c, "g"))
					if restart != nil {
						left = restart(fs)
					}
				})
				require.ErrorIs(t, closed, broken)
				if left == nil {
					left = fs
				}
				var shown, kept record.Offsets
				var cut *vfs.MemFS
				_ = withClusterUntilClosed(t, left, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
					shown = groupOf(t, c, "g")
					if !maps.Equal(shown, before) || shown == nil {
						require.Equal(t, change.after, shown)
					}
					last := record.TopicPartition{Topic: "t", Partition: 3}
					commit(t, c, commitOf("g", record.Offsets{last: 77}))
					kept = with(shown, record.Offsets{last: 77})
					require.Equal(t, kept, groupOf(t, c, "g"))
					cut = left.Crash(1)
				})
				withCluster(t, cut, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
					require.Equal(t, kept, groupOf(t, c, "g"), "what was shown stays")
				})
			})
		}
	}
}

func with(o, more record.Offsets) record.Offsets {
	o = maps.Clone(o)
	if o == nil {
		o = record.Offsets{}
	}
	maps.Copy(o, more)
	return o
}
