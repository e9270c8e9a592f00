package follow

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// openCompacted opens a partition of a compacted topic. Its tombstones and markers are purged
// after a second.
func openCompacted(t *testing.T, disk *vfs.MemFS) *real {
	p, err := partition.Open("p", compactedConfig(disk, 1<<20))
	require.NoError(t, err)
	return &real{Partition: p}
}

func compactedConfig(disk *vfs.MemFS, segmentBytes int64) partition.Config {
	return partition.Config{Topic: "t", Log: log.Config{
		FS: disk, Sync: log.SyncOnAck, SegmentBytes: segmentBytes, Cleanup: log.CleanupCompact | log.CleanupDelete, RetentionAge: log.Unlimited,
		MinDirtyRatio: 0.001, DeleteRetention: time.Second, DeleteDelay: time.Millisecond,
	}}
}

// put appends a record with a key, in a producer's transaction if pid is not 0. An empty value
// stands for a tombstone.
func (x *real) put(t *testing.T, pid int64, epoch int16, seq int32, key, value string) partition.ProduceResult {
	t.Helper()
	var b record.Builder
	b.Reset(0)
	if pid != 0 {
		b.SetProducer(pid, epoch, seq)
		b.SetTransactional(true)
	}
	var v []byte
	if value != "" {
		v = []byte(value)
	}
	b.AppendKV(time.Now().UnixMilli(), []byte(key), v, nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	done := make(chan partition.ProduceResult, 1)
	x.Produce(&partition.ProduceRequest{Batch: batch, Acks: record.AcksLeader, TransactionalID: "tx", Done: func(r partition.ProduceResult) { done <- r }})
	return <-done
}

func (x *real) mark(t *testing.T, pid int64, epoch int16, commit bool) {
	t.Helper()
	done := make(chan partition.ProduceResult, 1)
	x.EndTransaction(partition.TxnMarker{ProducerID: pid, ProducerEpoch: epoch, Commit: commit}, func(r partition.ProduceResult) { done <- r })
	require.NoError(t, (<-done).Err)
}

// alone makes x the leader of two replicas. The other one is alive, and not in sync.
func (x *real) alone(t *testing.T, epoch int32) {
	t.Helper()
	require.NoError(t, x.Lead(x.leadership(epoch, 0, true)))
}

func (x *real) leadership(epoch, change int32, alive bool) partition.Leadership {
	return partition.Leadership{
		Epoch: epoch, Broker: 1, PartitionEpoch: epoch + change, Replicas: []int32{1, 2}, InSync: []int32{1},
		Followers: []partition.Follower{{Broker: 2, Incarnation: 7, Alive: alive}}, Wake: x.wake,
	}
}

// purge lets compaction purge all that it may, and reports whether records were purged.
func (x *real) purge(t *testing.T) bool {
	t.Helper()
	before := x.Position().Purged
	for i := range 3 {
		require.NoError(t, x.put(t, 0, 0, 0, "filler", fmt.Sprint(i)).Err)
		require.NoError(t, x.Roll())
		_, err := x.Clean(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
	}
	return x.Position().Purged != before
}

// shown returns the records that a read_committed reader finds at a leader, by key.
func (x *real) shown(t *testing.T) map[string]string {
	t.Helper()
	got, aborted := map[string]string{}, map[int64]bool{}
	for from := x.LogStartOffset(); ; {
		res, err := x.Partition.Read(partition.ReadRequest{Offset: from, Isolation: partition.ReadCommitted, CurrentLeaderEpoch: -1})
		require.NoError(t, err)
		if len(res.Bytes) == 0 {
			return got
		}
		for rest := res.Bytes; len(rest) > 0; {
			b, n, err := record.Parse(rest)
			require.NoError(t, err)
			for _, a := range res.Aborted {
				if a.FirstOffset >= from && a.FirstOffset <= b.LastOffset() {
					aborted[a.ProducerID] = true
				}
			}
			rest, from = rest[n:], b.NextOffset()
			if b.IsControl() {
				delete(aborted, b.ProducerID)
				continue
			}
			for r, err := range b.All() {
				require.NoError(t, err)
				if !aborted[b.ProducerID] || !b.IsTransactional() {
					got[string(r.Key)] = string(r.Value)
				}
			}
		}
	}
}

// A follower that lacks purged records begins again, and then lacks nothing else. Keys deleted by
// a tombstone are absent, and no ended transaction is open. A follower that has all purged records
// continues.
func TestFollowerThatLacksWhatWasPurgedBeginsAnew(t *testing.T) {
	for name, has := range map[string]bool{"it lacks it": false, "it has it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				leader, follower := openCompacted(t, vfs.Mem()), openCompacted(t, disk)
				leader.alone(t, 3)
				require.NoError(t, follower.Follow(3))
				stop := copying(3, leader, follower)
				require.NoError(t, leader.put(t, 0, 0, 0, "kept", "v").Err)
				require.NoError(t, leader.put(t, 0, 0, 0, "k", "deleted").Err)
				require.NoError(t, leader.put(t, 5, 0, 0, "x", "aborted").Err)
				end := func() {
					leader.mark(t, 5, 1, false)
					require.NoError(t, leader.put(t, 0, 0, 0, "k", "").Err)
				}
				if has {
					end()
				}
				synctest.Wait()
				had := follower.LogEndOffset()
				stop()
				leader.Reassure(leader.leadership(3, 1, false))
				if !has {
					end()
				}
				require.True(t, leader.purge(t))
				leader.Reassure(leader.leadership(3, 2, true))
				leader.asks = nil
				stop = copying(3, leader, follower)
				synctest.Wait()
				stop()
				require.Equal(t, leader.LogEndOffset(), follower.LogEndOffset())
				for _, ask := range leader.asks {
					require.False(t, has && ask.Offset < had, "it has begun anew")
				}
				alike(t, leader, follower)
				killed := openCompacted(t, disk.Kill())
				alike(t, leader, killed) // a control batch without a marker begins nothing
				require.NoError(t, killed.Close())
				want := leader.LastStableOffset()
				require.Equal(t, leader.LogEndOffset(), want)
				follower.alone(t, 4)
				require.Equal(t, want, follower.LastStableOffset())
				shown := follower.shown(t)
				require.Equal(t, "v", shown["kept"])
				require.Empty(t, shown["k"])
				require.NotContains(t, shown, "x")
				if !has {
					require.Equal(t, leader.Position().Purged, follower.Position().Purged, "what its leader lacks it lacks too")
				}
				require.NoError(t, leader.Close())
				require.NoError(t, follower.Close())
			})
		})
	}
}

// The last purged record is a marker. A follower that ends before it begins again, even if it has
// all records that a tombstone deleted.
func TestFollowerBehindAPurgedMarkerBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := openCompacted(t, vfs.Mem())
		leader.alone(t, 3)
		leader.Reassure(leader.leadership(3, 1, false))
		require.NoError(t, leader.put(t, 5, 0, 0, "x", "aborted").Err)
		leader.mark(t, 5, 1, false)
		require.True(t, leader.purge(t))
		ask := partition.ReplicaFetch{Broker: 2, Incarnation: 7, LeaderEpoch: 3, LastEpoch: 3, Offset: 1}
		_, err := leader.ReadReplica(ask)
		require.ErrorIs(t, err, partition.ErrPurged)
		ask.Offset = 2
		_, err = leader.ReadReplica(ask)
		require.NoError(t, err)
		require.NoError(t, leader.Close())
	})
}

// An in-sync follower may have to lead, so it never has to empty its log, whatever else is wrong.
func TestNobodyInSyncIsToldToBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := openCompacted(t, vfs.Mem())
		leader.alone(t, 3)
		leader.Reassure(leader.leadership(3, 1, false))
		require.NoError(t, leader.put(t, 0, 0, 0, "k", "deleted").Err)
		require.NoError(t, leader.put(t, 0, 0, 0, "k", "").Err)
		require.True(t, leader.purge(t))
		ask := partition.ReplicaFetch{Broker: 2, Incarnation: 7, LeaderEpoch: 3, LastEpoch: 3, Offset: 1}
		_, err := leader.ReadReplica(ask)
		require.ErrorIs(t, err, partition.ErrPurged)
		both := leader.leadership(3, 2, true)
		both.InSync = []int32{1, 2}
		leader.Reassure(both)
		_, err = leader.ReadReplica(ask)
		require.NoError(t, err)
		require.NoError(t, leader.Close())
	})
}

// A copy continues from the log that it was copied from while no more is purged there. It
// continues from any other log only if it ends behind the purged records of both.
func TestUnfinishedCopyGoesOnFromAnEqualLogOnly(t *testing.T) {
	had := log.Purged{Below: 100, ID: 7}
	for _, tt := range []struct {
		name   string
		leader log.Purged
		end    int64
		missed bool
	}{
		{"the log that it was begun from", had, 10, false},
		{"more was purged", log.Purged{Below: 100, ID: 8}, 10, true},
		{"another that has purged nothing which it lacks", log.Purged{Below: 5, ID: 8}, 10, true},
		{"another, when the copy has all of the first", log.Purged{Below: 5, ID: 8}, 100, false},
		{"another, which has purged beyond it", log.Purged{Below: 101, ID: 8}, 100, true},
		{"one that never purged anything", log.Purged{}, 10, true},
	} {
		require.Equal(t, tt.missed, tt.leader.IsMissedBy(tt.end, had), tt.name)
	}
	require.False(t, log.Purged{}.IsMissedBy(0, log.Purged{}))
	require.True(t, had.IsMissedBy(0, log.Purged{}), "a new replica has to know what it is a copy of")
}

// While a follower makes progress, nothing that it is about to copy is purged, and nothing at all
// while it copies an incomplete log. So it need not begin again and again. Compaction does not
// wait for a follower without progress.
func TestNothingIsPurgedUnderACopyThatGetsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := openCompacted(t, vfs.Mem())
		leader.alone(t, 3)
		ask := partition.ReplicaFetch{Broker: 2, Incarnation: 7, LeaderEpoch: 3, LastEpoch: -1, MaxBytes: 1}
		read := func(offset int64) partition.ReplicaRead {
			ask.Offset = offset // nothing is durable, so the follower never catches up
			if ask.LastEpoch = -1; offset > 0 {
				ask.LastEpoch = 3
			}
			got, err := leader.ReadReplica(ask)
			require.NoError(t, err)
			return got
		}
		require.NoError(t, leader.put(t, 5, 0, 0, "x", "committed").Err) // 0
		leader.mark(t, 5, 1, true)                                       // 1
		require.NoError(t, leader.put(t, 0, 0, 0, "k", "deleted").Err)   // 2
		require.NoError(t, leader.put(t, 0, 0, 0, "k", "").Err)          // 3
		// After an hour the high watermark no longer waits for the follower.
		time.Sleep(time.Hour)
		read(0)
		read(3)
		require.False(t, leader.purge(t), "the tombstone at 3, which the follower is about to copy")
		read(4)
		require.True(t, leader.purge(t))
		_, err := leader.ReadReplica(partition.ReplicaFetch{Broker: 2, Incarnation: 7, LeaderEpoch: 3, Offset: 3, LastEpoch: 3})
		require.ErrorIs(t, err, partition.ErrPurged)

		ask.Purged = leader.Position().Purged // the follower has begun again
		read(0)
		read(3)
		require.NoError(t, leader.put(t, 0, 0, 0, "x", "later").Err)
		require.False(t, leader.purge(t), "nor the marker at 1: another copy may not have it, and this one could not go on")
		time.Sleep(time.Hour)
		require.True(t, leader.purge(t), "it has been there for an hour")
		require.NoError(t, leader.Close())
	})
}
