package share

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// damage inverts a bit of the last record of a partition of "jobs", on a disk that no broker uses.
func damage(t *testing.T, disk *vfs.MemFS, p int32) {
	t.Helper()
	dir := path.Join("data", "broker-1", fmt.Sprint("jobs-", p))
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		name := path.Join(dir, e.Name())
		p, err := vfs.ReadFile(disk, name)
		require.NoError(t, err)
		p[len(p)-2] ^= 1
		require.NoError(t, vfs.WriteFile(disk, name, p))
		return
	}
	require.Fail(t, "no log", dir)
}

// reads returns the number of fetches that f causes.
func (w *world) reads(f func()) int64 {
	before := w.cluster.Stats().FetchRequests
	f()
	return w.cluster.Stats().FetchRequests - before
}

// Checklist row S24.
func TestAFetchReadsAMebibyteUnlessItIsToldOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		s := newStorm(w, 1, 1)
		for i := range 30 {
			require.NoError(t, w.produce(0, 10*i, 10))
		}
		none := func(context.Context) (int, error) { return 0, nil }
		for _, c := range []struct {
			req  FetchRequest
			last int64
		}{
			{FetchRequest{}, 99},
			{FetchRequest{MaxBytes: 1}, 109},
			{FetchRequest{Reserve: none}, 119},
			{FetchRequest{MaxBytes: 7, Reserve: none}, 129},
		} {
			c.req.Group, c.req.Member, c.req.Partitions, c.req.MaxRecords = "g", "m", s.parts, 100
			rs, err := w.c.FetchEach(t.Context(), c.req)
			require.NoError(t, err)
			require.Len(t, rs[0].Deliveries, 1)
			require.Equal(t, c.last, rs[0].Deliveries[0].Last)
		}
		f, err := w.c.Fetch(t.Context(), FetchRequest{Group: "g", Member: "m", Partitions: s.parts, MaxRecords: 50})
		require.NoError(t, err)
		require.Equal(t, []Delivery{{First: 130, Last: 179, Count: 1}}, f.Deliveries)
	})
}

// Checklist row S24.
func TestAPartitionThatCannotBeReadHoldsUpNobodyAndIsNotPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		w := open(t, 1, disk, Config{Topic: testTopic})
		s := newStorm(w, 1, 1)
		require.NoError(t, w.produce(0, 0, 10))
		_, err := w.c.Fetch(t.Context(), FetchRequest{Group: "g", Member: "a", Partitions: s.parts, MaxRecords: 1})
		require.NoError(t, err) // the group has begun
		w.close()
		damage(t, disk, 0)
		w = open(t, 1, disk, Config{Topic: testTopic, LockDuration: time.Hour})
		defer w.close()
		req := FetchRequest{Group: "g", Member: "a", Partitions: s.parts[:1], MaxRecords: 5}
		_, err = w.c.Fetch(t.Context(), req)
		require.ErrorIs(t, err, partition.ErrCorrupt, "there is nothing else to wait for")
		rs, err := w.c.FetchEach(t.Context(), req)
		require.NoError(t, err)
		require.ErrorIs(t, rs[0].Err, partition.ErrCorrupt)

		req.Partitions, req.MaxWait = s.parts, 10*time.Minute
		n := w.reads(func() {
			began := time.Now()
			rs, err := w.c.FetchEach(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, 10*time.Minute, time.Since(began))
			require.ErrorIs(t, rs[0].Err, partition.ErrCorrupt)
			require.NoError(t, rs[1].Err)
		})
		require.Less(t, n, int64(600))
		for i, each := range []bool{true, false} {
			began := time.Now()
			time.AfterFunc(61234*time.Millisecond, func() { require.NoError(t, w.produce(1, 10+10*i, 5)) }) // as many as are acquired
			n = w.reads(func() {
				if each {
					rs, err := w.c.FetchEach(t.Context(), req)
					require.NoError(t, err)
					require.NotEmpty(t, rs[1].Deliveries)
					return
				}
				f, err := w.c.Fetch(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, s.parts[1], f.TopicPartition)
			})
			require.Equal(t, 61234*time.Millisecond, time.Since(began))
			require.Less(t, n, int64(100))
		}
	})
}

// Checklist row S24: as in Kafka, a group that begins behind the end of a log waits for it.
func TestAGroupThatBeginsBehindTheEndOfTheLogWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		s := newStorm(w, 1, 1)
		w.topic = s.parts[0].TopicID
		key := w.key(0)
		key.Group = "g"
		require.NoError(t, w.c.InitializeState(t.Context(), key, 1, 15))
		require.NoError(t, w.produce(0, 0, 10))
		req := FetchRequest{Group: "g", Member: "a", Partitions: s.parts[:1], MaxRecords: 5, MaxWait: 10 * time.Minute}
		n := w.reads(func() {
			rs, err := w.c.FetchEach(t.Context(), req)
			require.NoError(t, err)
			require.NoError(t, rs[0].Err)
			require.Empty(t, rs[0].Deliveries)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			_, err = w.c.Fetch(ctx, req)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		require.Less(t, n, int64(1000))
		time.AfterFunc(time.Minute, func() { require.NoError(t, w.produce(0, 10, 10)) })
		f, err := w.c.Fetch(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, []Delivery{{First: 15, Last: 19, Count: 1}}, f.Deliveries)
	})
}

// others returns the brokers except the leader of a partition.
func (w *world) others(tp record.TopicPartition) (ids []int32) {
	leader, _, err := w.cluster.LeaderOf(tp)
	require.NoError(w, err)
	for id := range int32(3) {
		if id+1 != leader {
			ids = append(ids, id+1)
		}
	}
	return ids
}

func one(offset int64, t AckType) []Ack {
	return []Ack{{First: offset, Last: offset, Types: []AckType{t}}}
}

// Checklist row S22.
func TestWhatCannotBeStoredTakesNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 3, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		s := newStorm(w, 1, 3)
		w.topic = s.parts[0].TopicID
		require.NoError(t, w.produce(0, 0, 4))
		fetch := func(member string) []Delivery {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			f, err := w.c.Fetch(ctx, FetchRequest{Group: "jobs", Member: member, Partitions: s.parts[:1], MaxRecords: 2})
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			return f.Deliveries
		}
		say := func(member string, acks []Ack) error {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			defer cancel()
			return w.c.Acknowledge(ctx, "jobs", member, s.parts[0], acks)
		}
		require.Equal(t, []Delivery{{First: 0, Last: 1, Count: 1}}, fetch("a"))
		require.Equal(t, []Delivery{{First: 2, Last: 3, Count: 1}}, fetch("b"))
		others := w.others(s.parts[0].TopicPartition)
		for _, id := range others {
			require.NoError(t, w.cluster.KillBroker(id))
		}
		require.ErrorIs(t, say("a", one(0, Accept)), ErrCoordinatorNotAvailable)
		require.Empty(t, fetch("c"), "what others have is theirs")
		require.ErrorIs(t, say("a", one(0, Accept)), ErrCoordinatorNotAvailable, "it may say it again")
		require.ErrorIs(t, say("a", one(0, Reject)), ErrInvalidRecordState)
		require.ErrorIs(t, say("c", one(0, Accept)), ErrInvalidRecordState)
		require.ErrorIs(t, say("a", one(1, Release)), ErrCoordinatorNotAvailable)
		require.Equal(t, []Delivery{{First: 1, Last: 1, Count: 2}}, fetch("c"), "what was released is another's at once")
		for _, id := range others {
			require.NoError(t, w.cluster.StartBroker(t.Context(), id))
		}
		time.Sleep(3 * time.Second)
		stored, err := w.c.StateSummary(t.Context(), w.key(0))
		require.NoError(t, err)
		require.Equal(t, int64(1), stored.Start, "what could not be stored is, without another call")
		require.Equal(t, []sharelog.Batch{{First: 1, Last: 1, State: 0, Count: 1}}, stored.Batches)
		require.NoError(t, say("a", one(0, Accept)))
		require.NoError(t, say("b", []Ack{{First: 2, Last: 3, Types: []AckType{Accept}}}))
		require.NoError(t, say("c", one(1, Accept)))
		stored, err = w.c.StateSummary(t.Context(), w.key(0))
		require.NoError(t, err)
		require.Equal(t, int64(4), stored.Start)

		time.Sleep(time.Minute)
		require.ErrorIs(t, say("a", one(0, Accept)), ErrInvalidRecordState, "not for ever")
	})
}

// Checklist row S22.
func TestAnAcknowledgementThatNobodyWaitsForMayBeSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		s := newStorm(w, 1, 1)
		require.NoError(t, w.produce(0, 0, 4))
		_, err := w.c.Fetch(t.Context(), FetchRequest{Group: "g", Member: "a", Partitions: s.parts[:1], MaxRecords: 4})
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for o := range int64(4) {
			if err := w.c.Acknowledge(ended, "g", "a", s.parts[0], one(o, Accept)); err != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.NoError(t, w.c.Acknowledge(t.Context(), "g", "a", s.parts[0], one(o, Accept)))
			}
		}
	})
}

// Checklist row S22.
func TestAResetThatIsRefusedTakesNothingFromMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 1, vfs.Mem(), Config{Topic: testTopic})
		defer w.close()
		s := newStorm(w, 1, 1)
		w.topic = s.parts[0].TopicID
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 5, 0))
		require.NoError(t, w.produce(0, 0, 4))
		f, err := w.c.Fetch(t.Context(), FetchRequest{Group: "jobs", Member: "a", Partitions: s.parts[:1], MaxRecords: 4})
		require.NoError(t, err)
		require.ErrorIs(t, w.c.InitializeState(t.Context(), w.key(0), 4, 0), ErrFencedStateEpoch)
		require.NoError(t, w.c.Acknowledge(t.Context(), "jobs", "a", f.TopicPartition, one(0, Accept)))
		require.NoError(t, w.c.InitializeState(t.Context(), w.key(0), 6, 0))
		require.ErrorIs(t, w.c.Acknowledge(t.Context(), "jobs", "a", f.TopicPartition, one(1, Accept)), ErrInvalidRecordState)
	})
}

// apart opens three brokers with a topic of two partitions and the topic of the states, whose
// partitions have one replica each. It returns a group, and the broker that keeps the group's
// state of partition 0. That broker leads no partition of the topic and does not keep the group's
// state of partition 1.
func apart(t *testing.T) (w *world, s *storm, group string, keeper int32) {
	w = open(t, 3, vfs.Mem(), Config{Topic: TopicConfig{Partitions: 3, Replicas: 1}})
	s = newStorm(w, 1, 1)
	w.topic = s.parts[0].TopicID
	for i := range 1000 {
		group = fmt.Sprint("g", i)
		var keepers []int32
		for p := range int32(2) {
			keeper, err := w.c.FindCoordinator(t.Context(), Key{Group: group, TopicID: w.topic, Partition: p})
			require.NoError(t, err)
			keepers = append(keepers, keeper)
		}
		leads := false
		for _, tp := range s.parts {
			leader, _, err := w.cluster.LeaderOf(tp.TopicPartition)
			require.NoError(t, err)
			leads = leads || leader == keepers[0]
		}
		if !leads && keepers[0] != keepers[1] {
			return w, s, group, keepers[0]
		}
	}
	require.Fail(t, "no such group")
	return nil, nil, "", 0
}

// Checklist row S22.
func TestWhatAMemberHadIsOthersAtOnceThoughItsStateCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, group, keeper := apart(t)
		defer w.close()
		for p := range int32(2) {
			require.NoError(t, w.produce(p, 10*int(p), 10))
			_, err := w.c.Fetch(t.Context(), FetchRequest{Group: group, Member: "a", Partitions: s.parts[p:], MaxRecords: 10})
			require.NoError(t, err)
		}
		require.NoError(t, w.cluster.KillBroker(keeper))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		gone := make(chan error, 1)
		time.AfterFunc(time.Second, func() { gone <- w.c.Expire(ctx, group, "a", s.parts) })
		for p := range int32(2) {
			f, err := w.c.Fetch(t.Context(), FetchRequest{Group: group, Member: "b", Partitions: s.parts[p : p+1], MaxRecords: 10})
			require.NoError(t, err)
			require.Equal(t, []Delivery{{First: 0, Last: 9, Count: 2}}, f.Deliveries)
			require.Equal(t, time.Second, time.Since(began))
		}
		require.ErrorIs(t, <-gone, context.DeadlineExceeded)
		require.NoError(t, w.cluster.StartBroker(t.Context(), keeper))
	})
}
