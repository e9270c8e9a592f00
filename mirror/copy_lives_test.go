package mirror_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Forty copies in one directory, each of which ends at a random moment, most of them with a power
// cut, under random faults of the source.
func TestCopyIsIdenticalThroughFortyLives(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	copyWorld(t, func(t *testing.T, w *world, far *remote.Cluster) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fd := newFeeder(t, far)
		disk := vfs.Mem()
		apis := []kafka.Key{kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.DescribeConfigs}
		for life := range 40 {
			fd.feed(t, rnd.IntN(3), 20+rnd.IntN(200))
			near := w.dial()
			var faults []*kafkatest.Injected
			for range rnd.IntN(3) {
				fault := kafkatest.Fault{APIs: []kafka.Key{apis[rnd.IntN(len(apis))]}, Skip: rnd.IntN(4), Times: 1 + rnd.IntN(3)}
				switch rnd.IntN(3) {
				case 0:
					fault.Close = true
				case 1:
					fault.Delay = time.Duration(rnd.IntN(15_000)) * time.Millisecond
				case 2:
					fault.APIs, fault.Code = []kafka.Key{kafka.Fetch}, kafka.NotLeaderOrFollower
				}
				faults = append(faults, w.server.Fault(fault))
			}
			c := openCopy(t, near, disk)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(400))*time.Millisecond)
			if rnd.IntN(4) == 0 { // long enough for the faults to pass
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 40*time.Second)
			}
			fed := make(chan struct{})
			go func() {
				defer close(fed)
				fd.feed(t, 0, 10)
			}()
			var left *vfs.MemFS
			if rnd.IntN(4) > 0 {
				o := vfs.CrashOptions{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom, Seed: rnd.Uint64()}
				cut := make(chan *vfs.MemFS, 1)
				context.AfterFunc(ctx, func() { cut <- disk.CrashWith(o) })
				require.NoError(t, c.Run(ctx), "life %d", life)
				left = <-cut
			} else {
				require.NoError(t, c.Run(ctx), "life %d", life)
			}
			cancel()
			require.NoError(t, c.Close())
			if left != nil {
				disk = left
			}
			require.NoError(t, near.Close())
			for _, i := range faults {
				i.Remove()
			}
			<-fed
			if rnd.IntN(4) == 0 {
				tp := record.TopicPartition{Topic: "t", Partition: int32(rnd.IntN(partitions))}
				_, _, end := raw(t, far, tp.Partition)
				_, err := far.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp: rnd.Int64N(end/2 + 1)})
				require.NoError(t, err)
			}
		}
		c, stop := caughtUp(t, far, disk)
		require.Greater(t, fd.next, 3000)
		identical(t, far, c)
		require.NoError(t, stop())
	})
}

// Wherever a promotion is interrupted, the directory is a copy that can be promoted, or a cluster
// with all records.
func TestPromotionIsInterruptedAtEveryOperation(t *testing.T) {
	look := sample.OneIn(t, 3)
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fd := newFeeder(t, far)
		for kind := range 3 {
			fd.feed(t, kind, 20)
		}
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		want := rows(t, far, "t")
		require.NoError(t, stop())
		require.NoError(t, c.Close())

		var mu sync.Mutex // guards cuts, places and n: logs are closed concurrently
		var cuts []*vfs.MemFS
		var places []string
		n, lost := 0, vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
		disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op&vfs.OpChange == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, crash := range []func() *vfs.MemFS{
				func() *vfs.MemFS { return disk.CrashWith(lost) }, func() *vfs.MemFS { return disk.Crash(uint64(n)) }, disk.Kill,
			} {
				if n++; look(n) {
					cuts, places = append(cuts, crash()), append(places, fmt.Sprintf("crash %d before %v", i, e))
				}
			}
		}})
		_, err := mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: disk})
		require.NoError(t, err)
		disk.Observe(vfs.Observer{})
		promoted := 0
		for i, cut := range append(cuts, disk) {
			cluster, err := strata.Open(strata.Config{FS: cut, Dir: "copy"})
			if err != nil {
				require.True(t, strings.Contains(err.Error(), "another program") || strings.Contains(err.Error(), "it is empty"), "%v: %v", places[i], err)
				_, err := mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: cut})
				require.NoError(t, err, places[i])
				cluster, err = strata.Open(strata.Config{FS: cut, Dir: "copy"})
				require.NoError(t, err, places[i])
			} else {
				promoted++
				_, err := mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: cut})
				require.Error(t, err)
			}
			require.Equal(t, want, rows(t, cluster, "t"))
			fill(t, cluster, 10_000, 30)
			require.Len(t, rows(t, cluster, "t")[0], len(want[0])+10)
			require.NoError(t, cluster.Close())
		}
		require.Positive(t, promoted)
	})
}

func TestCopyEndsWhileNoPartitionCanBeFetched(t *testing.T) {
	copyWorld(t, func(t *testing.T, w *world, far *remote.Cluster) {
		w.server.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Code: kafka.NotLeaderOrFollower})
		c := openCopy(t, far, vfs.Mem())
		for wait := time.Duration(0); wait < 3*time.Second; wait += 37 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			began := time.Now()
			require.NoError(t, c.Run(ctx))
			require.Less(t, time.Since(began), wait+time.Second)
			cancel()
		}
	})
}

func TestCopyEndsWithItsDisksError(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 30)
		disk := vfs.Mem()
		disk.SetCapacity(512 << 10)
		c := openCopy(t, far, disk)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		awaitCopied(t, far, c)
		for i := range 10 {
			fill(t, far, 30+3000*i, 3000)
		}
		err := <-ended
		require.ErrorContains(t, err, "no space left")
		require.Equal(t, err, c.Stats().LastError)
		disk.SetCapacity(0)
		require.NoError(t, c.Close())
		c, stop := caughtUp(t, far, disk)
		identical(t, far, c)
		require.NoError(t, stop())
	})
}

// A copy that lacks files is neither copied to nor promoted as if they had been empty. No cluster is
// made in a copy.
func TestCopyThatLacksFilesIsRefused(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		whole := vfs.Mem()
		c := openCopy(t, far, whole)
		_, err := strata.Open(strata.Config{FS: whole.Kill(), Dir: "copy"})
		require.ErrorContains(t, err, "it is a copy", "also before the first record")
		stop := startCopy(t, c)
		awaitCopied(t, far, c)
		require.NoError(t, stop())
		require.NoError(t, c.Close())
		for _, lost := range []string{"copy/broker-1/t-1", "copy/strata.copy", "copy/broker-1"} {
			disk := whole.Kill()
			require.NoError(t, disk.RemoveAll(lost))
			_, err := mirror.OpenCopy(far, mirror.CopyConfig{Dir: "copy", Topics: []string{"t"}, FS: disk})
			require.ErrorIs(t, err, mirror.ErrDamagedCopy, lost)
			_, err = mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: disk})
			require.Error(t, err, lost)
			_, err = strata.Open(strata.Config{FS: disk, Dir: "copy"})
			require.Error(t, err, lost)
		}
		require.NoError(t, vfs.WriteFile(whole, "copy/strata.copy", []byte("#strata copy 2 0000000000000000\n{}")))
		_, err = mirror.OpenCopy(nil, mirror.CopyConfig{Dir: "copy", FS: whole})
		require.ErrorIs(t, err, replication.ErrNewerFormat)
	})
}

func TestCopiesThatCannotBeOpened(t *testing.T) {
	disk := vfs.Mem()
	for _, cfg := range []mirror.CopyConfig{{}, {Dir: "copy", Topics: []string{"a b"}}, {Dir: "copy", Topics: []string{"t", "t"}}} {
		cfg.FS = disk
		_, err := mirror.OpenCopy(nil, cfg)
		var wrong *topic.ConfigError
		require.ErrorAs(t, err, &wrong)
	}
	_, err := mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "nowhere", FS: disk})
	require.ErrorContains(t, err, "nowhere")
	c := openCopy(t, nil, disk)
	_, err = mirror.OpenCopy(nil, mirror.CopyConfig{Dir: "copy", FS: disk})
	require.ErrorContains(t, err, "locked")
	require.NoError(t, c.Close())
	_, err = mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: disk})
	require.ErrorContains(t, err, "no topics")
	require.NoError(t, vfs.WriteFile(disk, "copy/strata.copy", []byte("#strata copy 1 0000000000000000\n{}")))
	_, err = mirror.OpenCopy(nil, mirror.CopyConfig{Dir: "copy", FS: disk})
	require.ErrorIs(t, err, mirror.ErrDamagedCopy)
}
