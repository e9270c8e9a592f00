package replication

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
