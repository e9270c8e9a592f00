package replication

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// flipBit flips a bit of the first segment of orders-0 on a broker.
func flipBit(t *testing.T, ds disks, broker int) {
	t.Helper()
	require.NoError(t, rewrite(ds[broker-1], dirOf(broker)+"/00000000000000000000.log", func(p []byte) []byte {
		p[70] ^= 4
		return p
	}))
}

// flipBitIn flips a bit in the records of a batch of orders-0 on a broker. Batches count from 0.
func flipBitIn(t *testing.T, ds disks, broker, batch int) {
	t.Helper()
	require.NoError(t, rewrite(ds[broker-1], dirOf(broker)+"/00000000000000000000.log", func(p []byte) []byte {
		at := 0
		for range batch {
			at += record.LogOverhead + int(binary.BigEndian.Uint32(p[at+8:]))
		}
		p[at+record.HeaderSize] ^= 4
		return p
	}))
}

// zeroSegment replaces all bytes of the only segment of orders-0 on a broker by zeros.
func zeroSegment(t *testing.T, ds disks, broker int) {
	t.Helper()
	require.NoError(t, rewrite(ds[broker-1], dirOf(broker)+"/00000000000000000000.log", func(p []byte) []byte {
		return make([]byte, len(p))
	}))
}

// requireMended checks that a partition that had damage has 5 records, on three replicas in sync,
// and that all brokers run.
func requireMended(t *testing.T, c *Cluster) {
	t.Helper()
	inSync(t, c, at("orders", 0), 3)
	require.Len(t, values(t, c, at("orders", 0)), 5)
	s := c.Status("orders", 0)
	require.NoError(t, s.Impaired)
	require.Equal(t, map[int32]int64{1: 5, 2: 5, 3: 5}, s.Ends)
	require.Len(t, c.Brokers(), 3)
}

// openWithDamage opens a cluster. The damaged brokers have a flipped bit in orders-0.
func openWithDamage(t *testing.T, brokers int, damaged ...int) (*Cluster, disks) {
	c, ds := openWithOrders(t, brokers)
	require.EqualValues(t, 1, c.Leader("orders", 0))
	require.NoError(t, c.Close())
	for _, id := range damaged {
		flipBit(t, ds, id)
	}
	c = openWith(t, ds.config())
	time.Sleep(time.Minute) // records are readable when the followers have fetched
	return c, ds
}

// A reader meets damage in the leader's log. An undamaged in-sync replica becomes the leader, the
// former leader is copied again, and its old files are put aside.
func TestDamagedLeaderGivesWayToAWholeReplica(t *testing.T) {
	for name, damaged := range map[string][]int{"leader": {1}, "leader and another one": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openWithDamage(t, 3, damaged...)
				_, err := tryValues(t.Context(), c, at("orders", 0))
				require.ErrorIs(t, err, partition.ErrCorrupt)
				synctest.Wait()
				time.Sleep(time.Minute)
				require.Len(t, values(t, c, at("orders", 0)), 5)
				require.EqualValues(t, 1+len(damaged), c.Leader("orders", 0))
				require.NoError(t, c.Status("orders", 0).Impaired)
				inSync(t, c, at("orders", 0), 3)
				require.NoError(t, tryAcks(c, at("orders", 0), record.AcksLeader, "b").Err)
				require.Zero(t, c.Stats().RecordsLost)
				entries, err := ds[0].ReadDir(brokerRoot(1))
				require.NoError(t, err)
				strays := 0
				for _, e := range entries {
					if strings.HasSuffix(e.Name(), straySuffix) {
						strays++
					}
				}
				require.Equal(t, 1, strays)
				require.NoError(t, c.Close())
				c = openWith(t, ds.config())
				time.Sleep(time.Minute)
				require.Len(t, values(t, c, at("orders", 0)), 6)
				require.EqualValues(t, 6, c.Status("orders", 0).Ends[1])
			})
		})
	}
}

// A follower meets the damage when it fetches missing records.
func TestLeaderWhoseDamageAFollowerMeetsGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithOrders(t, 3)
		require.NoError(t, c.Close())
		flipBit(t, ds, 1)
		require.NoError(t, ds[2].RemoveAll(dirOf(3)))
		c = openWith(t, ds.config())
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, c.Leader("orders", 0))
		inSync(t, c, at("orders", 0), 3)
		require.Len(t, values(t, c, at("orders", 0)), 5)
	})
}

// The damage may be in any batch that a read covers. Its own place decides.
func TestLeaderDamagedBehindTheFirstBatchOfAReadGivesWay(t *testing.T) {
	for batch := 1; batch < 5; batch++ {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openWithDamage(t, 3)
			flipBitIn(t, ds, 1, batch) // while the cluster runs
			vs, err := tryValues(t.Context(), c, at("orders", 0))
			require.ErrorIs(t, err, partition.ErrCorrupt)
			require.Len(t, vs, batch, "the records before the damage")
			time.Sleep(time.Minute)
			require.EqualValues(t, 2, c.Leader("orders", 0))
			requireMended(t, c)
		})
	}
}

// A flipped bit is not a failing disk. The partition's leader gives way, and its broker still
// leads other partitions.
func TestDamageThatAFollowerMeetsStopsNoBroker(t *testing.T) {
	for batch := range 5 {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openWithOrders(t, 3)
			require.NoError(t, c.Close())
			flipBitIn(t, ds, 1, batch)
			require.NoError(t, ds[1].RemoveAll(dirOf(2)))
			c = openWith(t, ds.config())
			time.Sleep(10 * time.Minute)
			requireMended(t, c)
		})
	}
}

// The follower that lacks its records gets the records before the damage, and Status keeps the
// damage.
func TestDamageOfAllWholeReplicasStopsNoBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithOrders(t, 3)
		require.NoError(t, c.Close())
		flipBitIn(t, ds, 1, 3)
		flipBitIn(t, ds, 3, 3)
		require.NoError(t, ds[1].RemoveAll(dirOf(2)))
		c = openWith(t, ds.config())
		for range 20 {
			time.Sleep(time.Minute)
			require.ErrorIs(t, c.Status("orders", 0).Impaired, partition.ErrCorrupt)
			require.EqualValues(t, 3, c.Status("orders", 0).Ends[2])
			require.Len(t, c.Brokers(), 3)
		}
	})
}

// An append, a search by time, or a follower's append meets the damage before any reader does.
func TestReplicaWhoseDamageAnotherOperationMeetsIsCopiedAgain(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, c *Cluster) error{
		"append": func(t *testing.T, c *Cluster) error { return tryAcks(c, at("orders", 0), record.AcksAll, "b").Err },
		"search by time": func(t *testing.T, c *Cluster) error {
			res, err := c.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{at("orders", 0): 1}, partition.ReadUncommitted)
			require.NoError(t, err)
			return res[at("orders", 0)].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ds := openWithOrders(t, 3)
				require.NoError(t, c.Close())
				zeroSegment(t, ds, 1)
				c = openWith(t, ds.config())
				time.Sleep(time.Minute)
				require.EqualValues(t, 1, c.Leader("orders", 0))
				require.ErrorIs(t, run(t, c), partition.ErrCorrupt)
				time.Sleep(time.Minute)
				require.EqualValues(t, 2, c.Leader("orders", 0))
				requireMended(t, c)
				require.NoError(t, tryAcks(c, at("orders", 0), record.AcksAll, "b").Err)
			})
		})
	}
	t.Run("follower's append", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, ds := openWithOrders(t, 3)
			require.NoError(t, c.Close())
			zeroSegment(t, ds, 2)
			c = openWith(t, ds.config())
			time.Sleep(time.Minute)
			require.NoError(t, tryAcks(c, at("orders", 0), record.AcksLeader, "b").Err)
			time.Sleep(time.Minute)
			inSync(t, c, at("orders", 0), 3)
			require.Equal(t, map[int32]int64{1: 6, 2: 6, 3: 6}, c.Status("orders", 0).Ends)
			require.Len(t, c.Brokers(), 3)
		})
	})
}

// No other replica is in sync when the damage is met. The leader gives way when another one is.
func TestDamagedLeaderGivesWayWhenAWholeReplicaIsInSyncAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithDamage(t, 3)
		for _, id := range []int32{2, 3} {
			require.NoError(t, c.StopBroker(t.Context(), id))
		}
		flipBitIn(t, ds, 1, 2)
		_, err := tryValues(t.Context(), c, at("orders", 0))
		require.ErrorIs(t, err, partition.ErrCorrupt)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.Leader("orders", 0))
		require.ErrorIs(t, c.Status("orders", 0).Impaired, partition.ErrCorrupt)
		for _, id := range []int32{2, 3} {
			require.NoError(t, c.StartBroker(t.Context(), id))
		}
		time.Sleep(5 * time.Minute)
		requireMended(t, c)
	})
}

// Status and Healthy report the damage until its records are deleted, whether or not they are
// read.
func TestStatusAndHealthHaveDamageUntilItsRecordsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openWithDamage(t, 1)
		flipBitIn(t, ds, 1, 2)
		vs, err := tryValues(t.Context(), c, at("orders", 0))
		require.ErrorIs(t, err, partition.ErrCorrupt)
		require.Len(t, vs, 2, "the records before the damage")
		for range 20 {
			require.ErrorIs(t, c.Status("orders", 0).Impaired, partition.ErrCorrupt)
			require.ErrorIs(t, c.Healthy(t.Context()), partition.ErrCorrupt)
			time.Sleep(time.Minute)
		}
		_, err = c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{at("orders", 0): 3})
		require.NoError(t, err)
		require.NoError(t, c.Status("orders", 0).Impaired)
		require.NoError(t, c.Healthy(t.Context()))
	})
}

// If no other replica is undamaged, or there is none, the leader stays, and Status reports the
// damage.
func TestDamagedLeaderStaysIfNoReplicaIsWhole(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var damaged []int
			for id := range brokers {
				damaged = append(damaged, id+1)
			}
			c, ds := openWithDamage(t, brokers, damaged...)
			for range 3 {
				_, err := tryValues(t.Context(), c, at("orders", 0))
				require.ErrorIs(t, err, partition.ErrCorrupt)
				require.ErrorIs(t, c.Status("orders", 0).Impaired, partition.ErrCorrupt)
				require.NoError(t, c.Status("orders", 0).Err)
				time.Sleep(time.Minute)
			}
			require.EqualValues(t, 1, c.Leader("orders", 0))
			inSync(t, c, at("orders", 0), brokers)
			for i := range brokers {
				entries, err := ds[i].ReadDir(brokerRoot(i + 1))
				require.NoError(t, err)
				for _, e := range entries {
					require.NotContains(t, e.Name(), straySuffix)
				}
			}
		})
	}
}

// Records on fewer replicas than min.insync.replicas are not readable. Status has the reason.
func TestStatusHasTheReasonWhyRecordsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, all(c, at("orders", 0), "a").Err)
		require.NoError(t, c.Status("orders", 0).Impaired)
		for _, id := range []int32{2, 3} {
			require.NoError(t, c.StopBroker(t.Context(), id))
		}
		require.ErrorIs(t, c.Status("orders", 0).Impaired, partition.ErrNotEnoughReplicas)
		require.NoError(t, c.StartBroker(t.Context(), 2))
		inSync(t, c, at("orders", 0), 2)
		require.NoError(t, c.Status("orders", 0).Impaired)
	})
}
