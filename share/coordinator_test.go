package share

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A world is a cluster with the coordinator of its share groups, in virtual time.
type world struct {
	*testing.T
	topic   topic.ID // topic of the states; an unknown one unless makeTopic was called
	cluster *replication.Cluster
	c       *Coordinator
}

// open starts brokers and the coordinator. Each broker has its own disk, except if there is only
// one broker: that uses disk.
func open(t *testing.T, brokers int, disk *vfs.MemFS, cfg Config) *world {
	specs := map[int32]replication.BrokerSpec{}
	for i := range brokers {
		fs := disk
		if brokers > 1 {
			fs = vfs.Mem()
		}
		specs[int32(i+1)] = replication.BrokerSpec{FS: fs}
	}
	cluster, err := replication.Open(replication.Config{Dir: "data", FS: disk, Brokers: brokers, BrokerSpecs: specs})
	require.NoError(t, err)
	c, err := NewCoordinator(cluster, cfg)
	require.NoError(t, err)
	return &world{t, topic.ID{9}, cluster, c}
}

// makeTopic makes the states belong to an existing topic.
func (w *world) makeTopic() {
	require.NoError(w, w.cluster.EnsureTopic(w.Context(), "jobs", topic.Config{Partitions: 2}))
	w.topic, _ = w.cluster.TopicID("jobs")
}

func (w *world) close() {
	w.Helper()
	require.NoError(w, w.c.Close())
	require.NoError(w, w.cluster.Close())
}

func (w *world) key(p int32) Key { return Key{Group: "jobs", TopicID: w.topic, Partition: p} }

func (w *world) write(p int32, start int64) error {
	return w.c.WriteState(w.Context(), w.key(p), StateChange{LeaderEpoch: 0, StateEpoch: -1, Start: start, Complete: 1,
		Batches: []sharelog.Batch{{First: start + 1, Last: start + 1, State: 2, Count: 1}}})
}

// records returns the number of records of the topic's partition.
func (w *world) records(p int32) int64 {
	s := w.cluster.Status(sharelog.Topic, p)
	require.NoError(w, s.Err)
	return s.HighWatermark - s.LogStartOffset
}

var testTopic = TopicConfig{Partitions: 1}

// Checklist row S5.
func TestStateIsReadByWhoeverLeadsNextAndFencesWhoLedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 3, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		require.ErrorIs(t, w.write(0, 1), ErrNotInitialized)
		_, err := w.c.ReadState(t.Context(), w.key(0), 0)
		require.ErrorIs(t, err, ErrNotInitialized)
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 1, 5))
		require.NoError(t, w.write(0, 6))

		leader, _, err := w.cluster.LeaderOf(record.TopicPartition{Topic: sharelog.Topic})
		require.NoError(t, err)
		require.NoError(t, w.cluster.KillBroker(leader))
		s, err := w.c.ReadState(t.Context(), w.key(0), 4)
		require.NoError(t, err)
		require.Equal(t, []any{int64(6), int32(1), []sharelog.Batch{{First: 7, Last: 7, State: 2, Count: 1}}}, []any{s.Start, s.StateEpoch, s.Batches})
		require.ErrorIs(t, w.write(0, 7), ErrFencedLeaderEpoch)
		_, err = w.c.ReadState(t.Context(), w.key(0), 3)
		require.ErrorIs(t, err, ErrFencedLeaderEpoch)

		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 2, 0))
		require.ErrorIs(t, w.c.WriteState(t.Context(), w.key(0), StateChange{LeaderEpoch: 4, StateEpoch: 1, Start: 9}), ErrFencedStateEpoch)
		require.ErrorIs(t, w.c.InitializeState(t.Context(), w.key(0), 1, 0), ErrFencedStateEpoch)
		s, err = w.c.StateSummary(t.Context(), w.key(0))
		require.NoError(t, err)
		require.Equal(t, []any{int64(0), int32(2), int32(4)}, []any{s.Start, s.StateEpoch, s.LeaderEpoch})

		require.NoError(t, w.c.DeleteState(t.Context(), w.key(0)))
		_, err = w.c.StateSummary(t.Context(), w.key(0))
		require.ErrorIs(t, err, ErrNotInitialized)
		require.ErrorIs(t, w.c.DeleteState(t.Context(), Key{Group: "g", Partition: -1}), sharelog.ErrMalformed)
	})
}

// Checklist row S6.
func TestTopicOfTheStatesDoesNotGrowWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		w := open(t, 1, disk, Config{Topic: testTopic, PruneInterval: time.Minute})
		w.makeTopic()
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 1, 0))
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(1), 1, 77))
		for i := range int64(5000) {
			require.NoError(t, w.write(0, i))
			if i%1000 == 999 {
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Less(t, w.records(0), int64(100))
			}
		}
		require.NoError(t, w.write(0, 5000))
		w.close()

		w = open(t, 1, disk, Config{Topic: testTopic})
		defer w.close()
		w.makeTopic()
		for p, start := range []int64{5000, 77} {
			s, err := w.c.ReadState(t.Context(), w.key(int32(p)), 0)
			require.NoError(t, err)
			require.Equal(t, start, s.Start)
		}
	})
}

// Checklist row S6.
func TestStatesOfADeletedTopicAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 3, vfs.Mem(), Config{Topic: testTopic, PruneInterval: time.Minute})
		defer w.close()
		w.makeTopic()
		gone := w.key(0)
		require.NoError(t, w.c.InitializeState(t.Context(), gone, 1, 0))
		require.NoError(t, w.cluster.DeleteTopic(t.Context(), "jobs"))
		w.makeTopic() // another topic of that name
		require.NotEqual(t, gone, w.key(0))
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 1, 5))
		leader, _, err := w.cluster.LeaderOf(record.TopicPartition{Topic: sharelog.Topic})
		require.NoError(t, err)
		require.NoError(t, w.cluster.KillBroker(leader))
		time.Sleep(2 * time.Minute)
		_, err = w.c.StateSummary(t.Context(), gone)
		require.ErrorIs(t, err, ErrNotInitialized)
		s, err := w.c.StateSummary(t.Context(), w.key(0))
		require.NoError(t, err)
		require.Equal(t, int64(5), s.Start)
	})
}

// A cut is the disk that a crash leaves, and the last confirmed start offset by then.
type cut struct {
	where string
	disk  *vfs.MemFS
	done  int64
}

// cutsOf writes a share-partition's state fourteen times, with a snapshot after every third update
// and pruning after every fifth write. It returns the disks that crashes at its calls leave.
func cutsOf(t *testing.T) (cuts []cut) {
	disk := vfs.Mem()
	w := open(t, 1, disk, Config{Topic: testTopic, UpdatesPerSnapshot: 3})
	var mu sync.Mutex
	done, n := int64(-1), 0
	look := sample.OneIn(t, 9)
	disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for i, o := range []vfs.CrashOptions{{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
			{Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom, Seed: uint64(e.N)}, {Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}} {
			if look(n) {
				cuts = append(cuts, cut{fmt.Sprintf("power cut %d before %v", i, e), disk.CrashWith(o), done})
			}
			n++
		}
	}})
	require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 1, 0))
	for i := range int64(14) {
		require.NoError(t, w.write(0, i))
		mu.Lock()
		done = i
		mu.Unlock()
		if i%5 == 4 {
			require.NoError(t, w.c.prune(t.Context(), 0))
		}
	}
	w.close()
	disk.Observe(vfs.Observer{})
	t.Logf("%d of %d cuts", len(cuts), n)
	return cuts
}

// Checklist row S5.
func TestStateThatWasWrittenSurvivesACrashAtEveryCall(t *testing.T) {
	var cuts []cut
	synctest.Test(t, func(t *testing.T) { cuts = cutsOf(t) })
	require.NotEmpty(t, cuts)
	for _, x := range cuts {
		synctest.Test(t, func(t *testing.T) {
			w := open(t, 1, x.disk, Config{Topic: testTopic, UpdatesPerSnapshot: 3})
			defer w.close()
			s, err := w.c.ReadState(t.Context(), w.key(0), 0)
			if x.done < 0 && err != nil {
				require.ErrorIs(t, err, ErrNotInitialized, x.where)
				return
			}
			require.NoError(t, err, x.where)
			require.GreaterOrEqual(t, s.Start, x.done, x.where)
			require.LessOrEqual(t, s.Start, x.done+1, x.where)
			require.NoError(t, w.write(0, 100))
			require.NoError(t, w.c.prune(t.Context(), 0))
		})
	}
}
