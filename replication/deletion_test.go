package replication

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestDirectoriesOfADeletedTopicStayForTheBrokersDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 2, "file.delete.delay.ms", "1")
		produce(t, c, at("orders", 0), "a")
		produce(t, c, at("orders", 1), "b")
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		require.Empty(t, servedDirs(t, fsys))
		require.Len(t, partitionDirs(t, fsys), 2)
		create(t, c, "orders", 1)
		produce(t, c, at("orders", 0), "new")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		time.Sleep(29 * time.Second)
		synctest.Wait()
		require.Len(t, partitionDirs(t, fsys), 3)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, partitionDirs(t, fsys), 1, "each waits for itself")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Empty(t, partitionDirs(t, fsys))
	})
}

func TestDirectoriesThatWaitAreLeftByCloseAndDeletedByTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c := open(t, fsys)
		create(t, c, "orders", 1)
		produce(t, c, at("orders", 0), "a")
		require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		require.NoError(t, c.Close())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, partitionDirs(t, fsys), 1, "a closed cluster does nothing")
		open(t, fsys)
		require.Empty(t, partitionDirs(t, fsys))
	})
}

func TestDelayOfDeletionsFollowsTheBrokersConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		fsys := vfs.Mem()
		c := openWith(t, Config{
			FS: fsys, Dir: "data", Logger: slog.New(slog.NewTextHandler(&out, nil)),
			Defaults: topic.Config{Properties: properties("file.delete.delay.ms", "0")},
		})
		remove := func() {
			create(t, c, "orders", 1)
			produce(t, c, at("orders", 0), "a")
			require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
		}
		remove()
		require.Empty(t, partitionDirs(t, fsys), "no delay")
		require.NoError(t, c.AlterBrokerConfig(t.Context(), AllBrokers, ConfigChange{Key: "log.segment.delete.delay.ms", Value: "5000"}))
		remove()
		require.Len(t, partitionDirs(t, fsys), 1)
		heal := fsys.Inject(vfs.Fault{Ops: vfs.OpRemove, Times: vfs.Always, Err: errors.New("disk broken")})
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Contains(t, out.String(), "disk broken")
		require.Len(t, partitionDirs(t, fsys), 1)
		heal()
		require.NoError(t, c.Close())
		open(t, fsys)
		require.Empty(t, partitionDirs(t, fsys), "what could not be deleted goes at the next open")
	})
}

// The process is killed when the directory of a deleted partition has its new name, which is not
// durable. The next open makes the name durable before it deletes files. Otherwise a power cut
// could restore the old name over a part of the files.
func TestDeletedPartitionNeverComesBackInPart(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1, "file.delete.delay.ms", "0")
	produce(t, c, at("orders", 0), "a")
	var killed *vfs.MemFS
	stop := fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpSyncDir && e.Name == root && len(servedDirs(t, fsys)) == 0 && killed == nil {
			killed = fsys.Kill()
		}
	}})
	require.NoError(t, c.DeleteTopic(t.Context(), "orders"))
	stop()
	require.NoError(t, c.Close())
	require.NotNil(t, killed)

	var cuts []*vfs.MemFS
	stop = killed.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		for seed := range uint64(8) {
			cuts = append(cuts, killed.CrashWith(vfs.CrashOptions{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom, Seed: seed + uint64(e.N)<<8}))
		}
	}})
	open(t, killed)
	stop()
	require.Empty(t, partitionDirs(t, killed))
	for i, disk := range cuts {
		again := openWith(t, Config{FS: disk, Dir: "data"})
		require.Empty(t, partitionDirs(t, disk), i)
		require.NoError(t, again.Close())
	}
}
