package group

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// openDisks opens a cluster whose brokers 1, 2, ... have these disks, and its coordinator.
func openDisks(t *testing.T, disks []*vfs.MemFS) (*replication.Cluster, *Coordinator) {
	t.Helper()
	cfg := replication.Config{FS: disks[0], Dir: "data", Brokers: len(disks), BrokerSpecs: map[int32]replication.BrokerSpec{}}
	for i, d := range disks {
		cfg.BrokerSpecs[int32(i+1)] = replication.BrokerSpec{FS: d}
	}
	brokers, err := replication.Open(cfg)
	require.NoError(t, err)
	c, err := NewCoordinator(ClusterStore(brokers), Config{OffsetsReplicas: 1})
	require.NoError(t, err)
	return brokers, c
}

// The disk of one of three brokers breaks: it is fenced, and its groups
// have no coordinator until it is back.
func TestGroupsOfABrokerThatIsFencedWaitForIt(t *testing.T) {
	const fenced = 2
	tp := record.TopicPartition{Topic: "t"}
	disks := []*vfs.MemFS{vfs.Mem(), vfs.Mem(), vfs.Mem()}
	of := map[string]int32{} // coordinating broker by group
	synctest.Test(t, func(t *testing.T) {
		brokers, c := openDisks(t, disks)
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Assignment: [][]int32{{1}}}))
		led := map[int32]int{}
		for i := range 30 {
			id := fmt.Sprint("group-", i)
			commit(t, c, commitOf(id, record.Offsets{tp: int64(i)}))
			broker, err := c.FindCoordinator(ctx, id)
			require.NoError(t, err)
			require.EqualValues(t, i, committed(t, c.On(broker), id, tp))
			of[id] = broker
			led[broker]++
		}
		require.Len(t, led, 3, "groups are spread over the brokers")
		mend := disks[fenced-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Times: vfs.Always, Err: errors.New("broken")})
		require.NoError(t, brokers.CreateTopic(ctx, "u", topic.Config{}))
		require.Equal(t, []int32{1, 3}, brokers.Brokers())
		synctest.Wait()
		begin := time.Now()
		for id, broker := range of {
			if broker == fenced {
				require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: id, MemberID: "m"}), ErrCoordinatorNotAvailable)
				_, err := c.On(broker).CommitOffsets(ctx, commitOf(id, record.Offsets{tp: 1000}))
				require.ErrorIs(t, err, ErrNotCoordinator)
				_, err = c.FindCoordinator(ctx, id)
				require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
				continue
			}
			commit(t, c, commitOf(id, record.Offsets{tp: 99}))
		}
		infos, err := c.Groups(ctx)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.Len(t, infos, led[1]+led[3])
		require.Equal(t, begin, time.Now(), "the others do not notice")
		require.NoError(t, c.Close())
		_ = brokers.Close() // may fail because of the broken disk
		mend()
	})
	synctest.Test(t, func(t *testing.T) {
		brokers, c := openDisks(t, disks)
		for i := range 30 {
			id := fmt.Sprint("group-", i)
			want := int64(99)
			if of[id] == fenced {
				want = int64(i)
			}
			require.Equal(t, want, committed(t, c.On(of[id]), id, tp), id)
			commit(t, c, commitOf(id, record.Offsets{tp: 100}))
		}
		require.NoError(t, c.Close())
		require.NoError(t, brokers.Close())
	})
}

// A coordinator that has not noticed the end of its leadership has its appends and reads rejected
// by the partition, whichever broker leads it now.
func TestOffsetsLogServesOneLeaderEpochOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := []*vfs.MemFS{vfs.Mem(), vfs.Mem(), vfs.Mem()}
		brokers, c := openDisks(t, disks)
		require.NoError(t, brokers.CreateTopic(ctx, "t", topic.Config{Assignment: [][]int32{{1}}}))
		id, found := "", int32(0)
		for i := 0; found != 3; i++ {
			var err error
			id = fmt.Sprint("group-", i)
			found, err = c.FindCoordinator(ctx, id)
			require.NoError(t, err)
		}
		commit(t, c, commitOf(id, record.Offsets{{Topic: "t"}: 7}))
		p := offsets.PartitionFor(id, 50)
		for _, present := range [][]*vfs.MemFS{disks[:2], disks} { // broker 3 stops and returns
			require.NoError(t, c.Close())
			require.NoError(t, brokers.Close())
			brokers, c = openDisks(t, present)
		}
		store := ClusterStore(brokers)
		_, epoch, err := store.OffsetsLeader(p)
		require.NoError(t, err)
		require.EqualValues(t, 2, epoch)
		l, err := store.OffsetsLog(p, epoch)
		require.NoError(t, err)
		start, end, err := l.Bounds()
		require.NoError(t, err)
		batch, err := l.Read(nil, start, 1<<20)
		require.NoError(t, err)
		record.SetBaseOffset(batch, 0)
		for _, other := range []int32{0, 1, 3} {
			l, err := store.OffsetsLog(p, other)
			require.NoError(t, err)
			done := make(chan error, 1)
			l.Append(batch, func(err error) { done <- err })
			for what, err := range map[string]error{"append": <-done, "read": second(l.Read(nil, 0, 1<<20)), "bounds": third(l.Bounds())} {
				require.ErrorIs(t, err, ErrMoving, what)
				require.NotErrorIs(t, err, ErrUncertain, what)
			}
		}
		_, now, err := l.Bounds()
		require.NoError(t, err)
		require.Equal(t, end, now, "nothing was appended")
		require.NoError(t, c.Close())
		require.NoError(t, brokers.Close())
	})
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
