package follow

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// real is a partition on one disk.
type real struct {
	*partition.Partition
	places []*Place
	asks   []partition.ReplicaFetch // fetches of followers
	lost   int64
}

func openReal(t *testing.T, segmentBytes int64) *real {
	p, err := partition.Open("p", partition.Config{Topic: "t", Log: log.Config{FS: vfs.Mem(), Sync: log.SyncOnAck, SegmentBytes: segmentBytes, RetentionAge: log.Unlimited}})
	require.NoError(t, err)
	return &real{Partition: p}
}

func (x *real) Watch(p *Place) { x.places = append(x.places, p) }
func (x *real) Unwatch(*Place) { x.places = nil }
func (x *real) Read(r partition.ReplicaFetch) (partition.ReplicaRead, error) {
	x.asks = append(x.asks, r)
	return x.ReadReplica(r)
}

func (x *real) Converge(ask partition.ReplicaFetch, d partition.Divergence) error {
	lost, err := x.Partition.Converge(ask, d)
	x.lost += lost
	return err
}

func (x *real) wake() {
	for _, p := range x.places {
		p.Wake()
	}
}

// lead makes x the leader of two replicas.
func (x *real) lead(t *testing.T, epoch int32) {
	require.NoError(t, x.Lead(partition.Leadership{
		Epoch: epoch, Broker: 1, PartitionEpoch: epoch, Replicas: []int32{1, 2}, InSync: []int32{1, 2},
		Followers: []partition.Follower{{Broker: 2, Incarnation: 7, Alive: true}}, Wake: x.wake,
	}))
}

func (x *real) append(t *testing.T, acks record.Acks, values ...string) {
	var b record.Builder
	b.Reset(0)
	for _, v := range values {
		b.AppendKV(1, []byte("k"), []byte(v), nil)
	}
	p, err := b.Build(record.None)
	require.NoError(t, err)
	_, err = x.AppendSync(t.Context(), p, acks)
	require.NoError(t, err)
}

// copying makes to copy from with its own fetcher until the returned function is called.
func copying(epoch int32, from, to *real) (end func()) {
	f, stop, done := New(Config{Broker: 2, Leader: 1, Incarnation: func() int64 { return 7 }}), make(chan struct{}), make(chan struct{})
	go func() {
		f.Run(stop)
		close(done)
	}()
	f.Follow(Following{Partition: record.TopicPartition{Topic: "t"}, Epoch: epoch, Source: from, Target: to})
	return func() {
		close(stop)
		<-done
	}
}

func bytesOf(t *testing.T, x *real, epoch int32) []byte {
	start := x.LogStartOffset()
	read, err := x.ReadReplica(partition.ReplicaFetch{Broker: 2, Incarnation: 7, LeaderEpoch: epoch, Offset: start, Durable: start, LogStart: start, LastEpoch: -1, MaxBytes: 1 << 20})
	require.NoError(t, err)
	return read.Bytes
}

// same compares two logs byte for byte. Afterwards the second one leads.
func same(t *testing.T, leader, follower *real, epoch int32) {
	want := bytesOf(t, leader, epoch)
	follower.lead(t, epoch+100)
	require.Equal(t, want, bytesOf(t, follower, epoch+100))
}

// A follower whose log ends before its leader's begins continues at the leader's start, also in
// the middle of a batch. Its log start moves with the leader's.
func TestFollowerBeginsWhereTheLeadersLogBegins(t *testing.T) {
	for name, start := range map[string]int64{"at a batch": 6, "inside of a batch": 7, "at the end": 12} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, follower := openReal(t, 1<<20), openReal(t, 1<<20)
				leader.lead(t, 3)
				require.NoError(t, follower.Follow(3))
				stop := copying(3, leader, follower)
				leader.append(t, record.AcksAll, "0", "1", "2")
				stop()
				for range 3 {
					leader.append(t, record.AcksLeader, "a", "b", "c")
				}
				// The follower no longer counts, so that records may be deleted.
				leader.Reassure(partition.Leadership{Epoch: 3, Broker: 1, PartitionEpoch: 4, Replicas: []int32{1, 2}, InSync: []int32{1},
					Followers: []partition.Follower{{Broker: 2, Incarnation: 7}}})
				_, err := leader.DeleteRecords(start)
				require.NoError(t, err)
				stop = copying(3, leader, follower)
				synctest.Wait()
				require.Equal(t, start, follower.LogStartOffset())
				require.EqualValues(t, 12, follower.LogEndOffset())
				whole := slices.IndexFunc(leader.asks, func(r partition.ReplicaFetch) bool { return r.Offset == 12 })
				require.Equal(t, start, leader.asks[whole].LogStart, "before the leader hears that it has all")
				leader.append(t, record.AcksAll, "last")
				synctest.Wait()
				_, err = leader.DeleteRecords(12)
				require.NoError(t, err)
				synctest.Wait()
				require.EqualValues(t, 12, follower.LogStartOffset(), "as soon as the leader's")
				stop()
				same(t, leader, follower, 3)
				require.NoError(t, leader.Close())
				require.NoError(t, follower.Close())
			})
		})
	}
}

// Records that the follower has and its leader lacks are truncated, by leader epochs.
func TestFollowerGivesUpWhatItsLeaderDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := openReal(t, 300), openReal(t, 300)
		old.lead(t, 1)
		require.NoError(t, next.Follow(1))
		stop := copying(1, old, next)
		for range 10 {
			old.append(t, record.AcksAll, "both")
		}
		stop()
		for range 5 {
			old.append(t, record.AcksLeader, "old alone")
		}
		next.lead(t, 2)
		for range 3 {
			next.append(t, record.AcksLeader, "next")
		}
		require.NoError(t, old.Follow(2))
		stop = copying(2, next, old)
		time.Sleep(time.Second)
		stop()
		require.EqualValues(t, 13, old.LogEndOffset())
		require.Zero(t, old.lost)
		require.EqualValues(t, 13, next.HighWatermark())
		same(t, next, old, 2)
		require.NoError(t, old.Close())
		require.NoError(t, next.Close())
	})
}
