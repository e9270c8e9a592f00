package group

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// withCluster runs f over a real broker on a file system in memory, in virtual time. The cluster is
// closed afterwards.
func withCluster(t *testing.T, fs vfs.FS, f func(t *testing.T, brokers *replication.Cluster, c *Coordinator)) {
	require.NoError(t, withClusterUntilClosed(t, fs, f))
}

// withClusterUntilClosed is withCluster for file systems that fail. It returns the error of closing
// the cluster.
func withClusterUntilClosed(t *testing.T, fs vfs.FS, f func(t *testing.T, brokers *replication.Cluster, c *Coordinator)) (closed error) {
	synctest.Test(t, func(t *testing.T) {
		brokers, err := replication.Open(replication.Config{FS: fs, Dir: "data"})
		require.NoError(t, err)
		defer func() { closed = brokers.Close() }()
		if err := brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 4}); !errors.Is(err, replication.ErrTopicExists) {
			require.NoError(t, err)
		}
		c, err := NewCoordinator(ClusterStore(brokers), Config{})
		require.NoError(t, err)
		defer checkEvents(t, c)()
		defer c.Close()
		f(t, brokers, c)
	})
	return closed
}

var fourPartitions = map[string]int32{"t": 4}

// Membership survives a restart of the broker. Members of a killed process keep their partitions
// for a whole session, unless they are static or have a short one.
func TestGroupsAndOffsetsSurviveEveryKindOfRestart(t *testing.T) {
	for name, restart := range map[string]func(fs *vfs.MemFS) *vfs.MemFS{
		// the same file system, after Close
		"closed":     func(fs *vfs.MemFS) *vfs.MemFS { return nil },
		"killed":     func(fs *vfs.MemFS) *vfs.MemFS { return fs.Kill() },
		"power lost": func(fs *vfs.MemFS) *vfs.MemFS { return fs.Crash(7) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.Mem()
			var after *vfs.MemFS
			var id string
			var generation int32
			all := record.Offsets{}
			withCluster(t, fs, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
				m := newClient(c, "g", assignor.Range(), fourPartitions).start()
				waitGroup(t, c, StableWith(1))
				id = m.memberID()
				generation, _ = m.state()
				for p := range int32(4) {
					all[record.TopicPartition{Topic: "t", Partition: p}] = int64(100 + p)
				}
				r := commitOf("g", all)
				r.MemberID, r.Generation = id, generation
				commit(t, c, r)
				commit(t, c, commitOf("simple", record.Offsets{{Topic: "t"}: 7}))
				after = restart(fs)
				m.kill()
			})
			if after == nil {
				after = fs
			}
			withCluster(t, after, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
				for range 5 {
					require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: id, Generation: generation}))
					time.Sleep(5 * time.Second)
				}
				info, err := c.Group(ctx, "g")
				require.NoError(t, err)
				require.True(t, StableWith(1)(info))
				require.Equal(t, generation, info.Generation)
				require.Equal(t, 4, assigned(info))
				for tp, offset := range all {
					require.Equal(t, offset, committed(t, c, "g", tp))
				}
				require.EqualValues(t, 7, committed(t, c, "simple", record.TopicPartition{Topic: "t"}))
				time.Sleep(time.Minute)
				info, err = c.Group(ctx, "g")
				require.NoError(t, err)
				require.Equal(t, Empty, info.State)
			})
		})
	}
}

func TestOffsetsTopicIsKafkasAndHasFilesOnlyWhereItIsWritten(t *testing.T) {
	fs := vfs.Mem()
	withCluster(t, fs, func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		_, err := c.FetchOffsets(ctx, "my-group", nil)
		require.NoError(t, err)
		md, err := brokers.Metadata(ctx, offsets.Topic)
		require.NoError(t, err)
		require.ErrorIs(t, md.Topics[offsets.Topic].Err, replication.ErrUnknownTopic, "reading makes no topic")

		commit(t, c, commitOf("my-group", record.Offsets{{Topic: "t"}: 7}))
		md, err = brokers.Metadata(ctx, offsets.Topic)
		require.NoError(t, err)
		require.Len(t, md.Topics[offsets.Topic].Partitions, 50)
		for p := range int32(50) {
			written, err := brokers.Written(record.TopicPartition{Topic: offsets.Topic, Partition: p})
			require.NoError(t, err)
			require.Equal(t, p == offsets.PartitionFor("my-group", 50), written, p)
		}
		info, err := brokers.Topic(ctx, offsets.Topic)
		require.NoError(t, err)
		require.Equal(t, "__consumer_offsets", info.Name)
		policy, _ := info.Settings.Value("cleanup.policy")
		require.Equal(t, "compact", policy, "the last offset of each partition is kept for ever")

		l, err := ClusterStore(brokers).OffsetsLog(12, 0)
		require.NoError(t, err)
		p, err := l.Read(nil, 0, 1<<20)
		require.NoError(t, err)
		b, _, err := record.Parse(p)
		require.NoError(t, err)
		for r, err := range b.All() {
			require.NoError(t, err)
			k, _, err := offsets.ParseKey(r.Key)
			require.NoError(t, err)
			require.Equal(t, offsets.Key{Type: offsets.KeyOffset, Group: "my-group", Topic: "t"}, k)
			v, err := offsets.ParseOffsetValue(r.Value)
			require.NoError(t, err)
			require.EqualValues(t, 7, v.Offset)
			require.Equal(t, [16]byte(md0(t, brokers, "t")), v.TopicID)
		}
	})
}

func md0(t *testing.T, brokers *replication.Cluster, name string) topic.ID {
	md, err := brokers.Metadata(ctx, name)
	require.NoError(t, err)
	return md.Topics[name].ID
}

func TestDeletingATopicDeletesItsOffsetsOnTheBroker(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 7}))
		require.NoError(t, brokers.DeleteTopic(ctx, "t"))
		synctest.Wait()
		_, err := c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestCommitsForATopicThatWasCreatedAgainAreRefused(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		late := commitOf("g", record.Offsets{{Topic: "t"}: 7})
		late.TopicIDs = map[string][16]byte{"t": md0(t, brokers, "t")}
		commit(t, c, late)
		require.NoError(t, brokers.DeleteTopic(ctx, "t"))
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 1}))
		require.Equal(t, int64(-1), committed(t, c, "g", record.TopicPartition{Topic: "t"}), "offset in the old topic")
		synctest.Wait() // the coordinator has noticed the deletion
		errs, err := c.CommitOffsets(ctx, late)
		require.NoError(t, err)
		require.ErrorIs(t, errs[record.TopicPartition{Topic: "t"}], ErrUnknownTopicOrPartition)
		require.Equal(t, int64(-1), committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		late.TopicIDs["t"] = md0(t, brokers, "t")
		commit(t, c, late)
		require.Equal(t, int64(7), committed(t, c, "g", record.TopicPartition{Topic: "t"}))
	})
}

func TestLagIsSeenFromTheBrokersLogs(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		var b record.Builder
		for range 5 {
			b.AppendKV(1, nil, []byte("v"), nil)
		}
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		done := make(chan partition.ProduceResult, 1)
		brokers.Produce(&partition.ProduceRequest{TopicPartition: record.TopicPartition{Topic: "t"}, Batch: batch, Done: func(r partition.ProduceResult) { done <- r }})
		require.NoError(t, (<-done).Err)
		require.NoError(t, c.ResetOffsets(ctx, "g", record.Offsets{{Topic: "t"}: 2}))
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.EqualValues(t, 3, info.Lag())
	})
}

func TestFailedDiskSendsMembersAwayUntilItHeals(t *testing.T) {
	fs := vfs.Mem()
	withCluster(t, fs, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
		tp := record.TopicPartition{Topic: "t"}
		commit(t, c, commitOf("g", record.Offsets{tp: 1}))
		full := errors.New("no space left")
		heal := fs.Inject(vfs.Fault{Ops: vfs.OpWrite, Times: vfs.Always, Err: full})
		_, err := c.CommitOffsets(ctx, commitOf("g", record.Offsets{tp: 2}))
		require.ErrorIs(t, err, ErrNotCoordinator)
		require.ErrorIs(t, err, full)
		require.EqualValues(t, 1, committed(t, c, "g", tp))
		heal()
		commit(t, c, commitOf("g", record.Offsets{tp: 3}))
		require.EqualValues(t, 3, committed(t, c, "g", tp))
	})
}

func TestCommitsAreReadBackFromFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	for round := range int64(3) {
		brokers, err := replication.Open(replication.Config{Dir: dir})
		require.NoError(t, err)
		if round == 0 {
			require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 1}))
		}
		c, err := NewCoordinator(ClusterStore(brokers), Config{})
		require.NoError(t, err)
		if round > 0 {
			require.Equal(t, round-1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		}
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: round}))
		require.NoError(t, c.Close())
		require.NoError(t, brokers.Close())
	}
}

// BenchmarkCommitDurable commits from 32 goroutines, into one group or each into its own, which
// uses more than twenty files.
func BenchmarkCommitDurable(b *testing.B) {
	for _, groups := range []int{1, 32} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			brokers, err := replication.Open(replication.Config{Dir: b.TempDir()})
			require.NoError(b, err)
			defer brokers.Close()
			require.NoError(b, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 1}))
			c, err := NewCoordinator(ClusterStore(brokers), Config{})
			require.NoError(b, err)
			defer c.Close()
			commits := make([]CommitRequest, groups)
			for i := range commits { // the files exist before the measurement starts
				commits[i] = commitOf(fmt.Sprint("g", i), record.Offsets{{Topic: "t"}: 1})
				_, err := c.CommitOffsets(ctx, commits[i])
				require.NoError(b, err)
			}
			b.ReportAllocs()
			b.SetParallelism(max(32/runtime.GOMAXPROCS(0), 1))
			var next atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := commits[int(next.Add(1))%groups]
				for pb.Next() {
					if _, err := c.CommitOffsets(ctx, r); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			b.ReportMetric(float64(c.Stats().Commits)/float64(c.Stats().Appends), "commits/append")
		})
	}
}

// The watcher of the topics may lag. A change of a topic whose call has returned counts for the
// next commit.
func TestCommitForATopicIsRefusedAsSoonAsItIsReplaced(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		tp := record.TopicPartition{Topic: "t"}
		for range 300 {
			md, err := brokers.Metadata(ctx, "t")
			require.NoError(t, err)
			r := commitOf("g", record.Offsets{tp: 7})
			r.TopicIDs = map[string][16]byte{"t": md.Topics["t"].ID}
			commit(t, c, r)
			synctest.Wait() // the watcher has seen this topic
			require.NoError(t, brokers.DeleteTopic(ctx, "t"))
			require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Partitions: 4}))
			errs, err := c.CommitOffsets(ctx, r)
			require.NoError(t, err)
			require.ErrorIs(t, errs[tp], ErrUnknownTopicOrPartition)
		}
	})
}
