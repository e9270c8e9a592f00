package replication

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// once calls fn before the first change of a file whose name begins with prefix.
func once(fs *vfs.MemFS, prefix string, fn func()) (remove func()) {
	var first sync.Once
	return fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange != 0 && strings.HasPrefix(e.Name, prefix) {
			first.Do(fn)
		}
	}})
}

// requireCopy opens a copy, lets each replica of orders-0 lead in turn, and looks for its records.
func requireCopy(t *testing.T, fs *vfs.MemFS, records int) {
	t.Helper()
	c, err := Open(Config{FS: fs, Dir: "copy"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	tp := at("orders", 0)
	require.NoError(t, c.WaitISR(t.Context(), tp))
	for _, id := range c.Status("orders", 0).Replicas {
		require.NoError(t, c.TransferLeader(t.Context(), tp, id))
		require.NoError(t, all(c, tp, "more").Err) // commits the records of its predecessors
		records++
		require.Len(t, values(t, c, tp), records, "broker %d leads", id)
	}
}

// A replica moves from a broker that is copied later to a broker that was copied already, or the
// other way round. The copy has all records that were acknowledged before the backup began.
func TestBackupBesideAReassignmentHasWhatWasAcknowledged(t *testing.T) {
	for from := range int32(3) {
		for to := range int32(3) {
			if from == to {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.Mem()
				c := openWith(t, Config{Brokers: 3, FS: fs, Dir: "data"})
				require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{from + 1}}}))
				require.NoError(t, c.CreateTopic(t.Context(), "others", topic.Config{Assignment: [][]int32{{1}, {2}, {3}}}))
				require.NoError(t, all(c, at("orders", 0), "a", "b").Err)
				for p := range int32(3) {
					require.NoError(t, all(c, at("others", p), "x").Err)
				}
				defer once(fs, "copy/broker-2/others-", func() {
					require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: at("orders", 0), Replicas: []int32{to + 1}})[0])
					require.NoError(t, c.WaitReassigned(t.Context()))
				})()
				require.NoError(t, c.Backup(t.Context(), "copy"))
				requireCopy(t, fs, 2)
			})
		}
	}
}

// A follower that lacks records is copied, and then it joins the in-sync set.
func TestBackupBesideAFollowerThatJoinsHasWhatWasAcknowledged(t *testing.T) {
	for others := range int32(3) {
		synctest.Test(t, func(t *testing.T) {
			fs := vfs.Mem()
			c := openWith(t, Config{Brokers: 3, FS: fs, Dir: "data", SessionTimeout: 1000 * time.Hour})
			out := c.Controller()%3 + 1
			one, two := out%3+1, (out+1)%3+1
			tp := at("orders", 0)
			require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{
				Assignment: [][]int32{{one, two, out}}, Properties: properties("min.insync.replicas", "2"),
			}))
			require.NoError(t, c.CreateTopic(t.Context(), "others", topic.Config{Assignment: [][]int32{{1}, {2}, {3}}}))
			require.NoError(t, all(c, tp, "a").Err)
			for p := range int32(3) {
				require.NoError(t, all(c, at("others", p), "x").Err)
			}
			paths := []NetworkPath{{From: out, To: one}, {From: out, To: two}, {From: one, To: out}, {From: two, To: out}}
			for _, path := range paths {
				c.Network().Cut(path)
			}
			require.NoError(t, all(c, tp, "b", "c").Err)
			require.NoError(t, c.WaitISR(t.Context(), tp, one, two))
			defer once(fs, "copy/broker-"+string('1'+rune(others))+"/others-", func() {
				for _, path := range paths {
					c.Network().Mend(path)
				}
				require.NoError(t, c.WaitISR(t.Context(), tp))
				require.NoError(t, c.TransferLeader(t.Context(), tp, out))
			})()
			require.NoError(t, c.Backup(t.Context(), "copy"))
			requireCopy(t, fs, 3)
		})
	}
}
