package follow

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// idempotent appends a record of a producer outside transactions.
func (x *real) idempotent(t *testing.T, pid int64, seq int32, acks record.Acks) partition.ProduceResult {
	t.Helper()
	var b record.Builder
	b.Reset(0)
	b.SetProducer(pid, 0, seq)
	b.AppendKV(1, []byte(fmt.Sprint("p", pid)), []byte(fmt.Sprint(seq)), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	done := make(chan partition.ProduceResult, 1)
	x.Produce(&partition.ProduceRequest{Batch: batch, Acks: acks, Done: func(r partition.ProduceResult) { done <- r }})
	return <-done
}

// alike compares the producers, transactions and offsets of two replicas.
func alike(t *testing.T, leader, follower *real) {
	t.Helper()
	type known struct {
		pid      int64
		epoch    int16
		sequence int32
		first    int64
	}
	what := func(x *real) (all []known) {
		for _, p := range x.Producers() {
			all = append(all, known{p.ProducerID, p.Epoch, p.LastSequence, p.TxnFirstOffset})
		}
		return all
	}
	require.Equal(t, what(leader), what(follower))
	require.Equal(t, leader.LogStartOffset(), follower.LogStartOffset())
	require.Equal(t, leader.LogEndOffset(), follower.LogEndOffset())
}

// A follower that begins at its leader's start gets the leader's state of the producers that wrote
// below. A retried batch is not duplicated. An open transaction stays open, even if its records
// are deleted, so that all leaders have the same last stable offset.
func TestFollowerThatBeginsLaterKnowsTheProducersOfWhatWasDeleted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start int64
		ends  bool // the transactions end before the follower returns
	}{
		{"at a batch", 7, false}, {"inside of a batch", 11, false}, {"at the end", 13, false}, {"with the marker behind", 7, true}, {"with the marker gone", 15, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, follower := openReal(t, 1<<20), openReal(t, 1<<20)
				leader.alone(t, 3)
				leader.Reassure(leader.leadership(3, 1, false))
				require.NoError(t, follower.Follow(3))
				leader.append(t, record.AcksLeader, "0", "1", "2")
				require.NoError(t, leader.put(t, 5, 0, 0, "open", "v").Err)  // 3
				require.NoError(t, leader.put(t, 6, 0, 0, "more", "v").Err)  // 4
				first := leader.idempotent(t, 8, 0, record.AcksAll)          // 5
				again := leader.idempotent(t, 8, 1, record.AcksAll)          // 6
				require.NoError(t, leader.put(t, 6, 0, 1, "more", "v2").Err) // 7
				leader.append(t, record.AcksLeader, "a", "b", "c", "d", "e") // 8 to 12
				if tt.ends {
					leader.mark(t, 5, 1, false)
					leader.mark(t, 6, 1, true)
				}
				_, err := leader.DeleteRecords(tt.start)
				require.NoError(t, err)
				leader.Reassure(leader.leadership(3, 2, true))
				stop := copying(3, leader, follower)
				synctest.Wait()
				stop()
				require.EqualValues(t, 5, first.BaseOffset)
				alike(t, leader, follower)
				stable := leader.LastStableOffset()

				follower.alone(t, 4)
				follower.Reassure(follower.leadership(4, 1, false))
				require.Equal(t, stable, follower.LastStableOffset())
				got := follower.idempotent(t, 8, 1, record.AcksAll)
				require.NoError(t, got.Err)
				require.Equal(t, []any{true, again.BaseOffset}, []any{got.Duplicate, got.BaseOffset})
				require.NoError(t, follower.idempotent(t, 8, 2, record.AcksAll).Err)
				for _, pid := range []int64{5, 6} {
					follower.mark(t, pid, 1, true)
				}
				require.Equal(t, follower.LogEndOffset(), follower.LastStableOffset())
				require.NoError(t, leader.Close())
				require.NoError(t, follower.Close())
			})
		})
	}
}

// The snapshot before the leader's start has an open transaction whose marker compaction has
// purged since. The transaction has ended, and is not open on a follower that begins there.
func TestFollowerThatBeginsBehindAPurgedMarkerTakesNothingForOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Segments are so small that the two stay apart.
		p, err := partition.Open("p", compactedConfig(vfs.Mem(), 400))
		require.NoError(t, err)
		leader, follower := &real{Partition: p}, openCompacted(t, vfs.Mem())
		leader.alone(t, 3)
		leader.Reassure(leader.leadership(3, 1, false))
		require.NoError(t, follower.Follow(3))
		require.NoError(t, leader.put(t, 0, 0, 0, "k", strings.Repeat("v", 250)).Err) // 0
		require.NoError(t, leader.put(t, 5, 0, 0, "x", "aborted").Err)                // 1
		// The snapshot has the open transaction.
		require.NoError(t, leader.Roll())
		leader.mark(t, 5, 1, false)                                  // 2
		require.NoError(t, leader.put(t, 0, 0, 0, "kept", "v").Err)  // 3
		require.NoError(t, leader.put(t, 0, 0, 0, "kept2", "v").Err) // 4
		require.NoError(t, leader.Roll())
		require.True(t, leader.purge(t))
		_, err = leader.DeleteRecords(4)
		require.NoError(t, err)
		leader.Reassure(leader.leadership(3, 2, true))
		stop := copying(3, leader, follower)
		synctest.Wait()
		stop()
		follower.alone(t, 4)
		require.Equal(t, follower.LogEndOffset(), follower.LastStableOffset())
		require.NoError(t, leader.Close())
		require.NoError(t, follower.Close())
	})
}

// Damaged producers, or a response of another leader epoch, seed nothing.
func TestDamagedProducersSeedNothing(t *testing.T) {
	follower := openReal(t, 1<<20)
	defer func() { require.NoError(t, follower.Close()) }()
	require.NoError(t, follower.Follow(3))
	ask := follower.Position()
	ask.LeaderEpoch = 3
	require.ErrorIs(t, follower.Seed(ask, 0, []byte("nonsense")), partition.ErrCorrupt)
	ask.LeaderEpoch = 2
	require.ErrorIs(t, follower.Seed(ask, 0, nil), partition.ErrFencedLeaderEpoch)
}

// A kill or a power cut comes before any call while a follower begins again, or begins behind
// deleted records. Afterwards it has its leader's records and the same producers.
func TestCrashAtEveryCallOfACopyThatBeginsAnew(t *testing.T) {
	for name, start := range map[string]int64{"anew": 0, "behind what was deleted": 2, "inside of a batch": 4} {
		t.Run(name, func(t *testing.T) {
			looked := sample.OneIn(t, 2)
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				leader, follower := openCompacted(t, vfs.Mem()), openCompacted(t, disk)
				leader.alone(t, 3)
				require.NoError(t, follower.Follow(3))
				stop := copying(3, leader, follower)
				require.NoError(t, leader.put(t, 5, 0, 0, "x", "aborted").Err)
				require.NoError(t, leader.put(t, 0, 0, 0, "k", "deleted").Err)
				synctest.Wait()
				stop()
				leader.Reassure(leader.leadership(3, 1, false))
				leader.append(t, record.AcksLeader, "a", "b", "c")
				leader.mark(t, 5, 1, false)
				require.NoError(t, leader.put(t, 0, 0, 0, "k", "").Err)
				require.NoError(t, leader.put(t, 6, 0, 0, "y", "open").Err)
				require.NoError(t, leader.idempotent(t, 8, 0, record.AcksLeader).Err)
				if start == 0 {
					leader.mark(t, 6, 1, true)
					require.True(t, leader.purge(t))
					require.NoError(t, leader.put(t, 6, 1, 0, "y", "open").Err)
				} else {
					if start == 2 {
						start = leader.LogEndOffset() - 1
					}
					leader.append(t, record.AcksLeader, "d", "e", "f")
					_, err := leader.DeleteRecords(start)
					require.NoError(t, err)
					_, err = leader.Retain(t.Context())
					require.NoError(t, err)
				}
				leader.Reassure(leader.leadership(3, 2, true))

				var mu sync.Mutex // guards the variables below while the partition is open
				var left []*vfs.MemFS
				n := uint64(0)
				done := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
					if e.Op&vfs.OpChange == 0 {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					n++
					left = append(left, disk.Kill(), disk.Crash(n), disk.CrashWith(vfs.CrashOptions{Seed: n, Data: vfs.CrashTorn, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}))
				}})
				stop = copying(3, leader, follower)
				synctest.Wait()
				stop()
				done()
				alike(t, leader, follower)
				require.NoError(t, follower.Close())
				require.Greater(t, len(left), 30)
				stable := leader.LastStableOffset()
				for i, disk := range left {
					if !looked(i) {
						continue
					}
					again := openCompacted(t, disk)
					require.NoError(t, again.Follow(3))
					stop := copying(3, leader, again)
					synctest.Wait()
					time.Sleep(10 * time.Second) // failed calls are retried
					synctest.Wait()
					stop()
					alike(t, leader, again)
					again.alone(t, 4)
					require.Equal(t, stable, again.LastStableOffset(), i)
					require.Equal(t, leader.shown(t), again.shown(t), i)
					require.NoError(t, again.Close())
				}
				require.NoError(t, leader.Close())
			})
		})
	}
}
