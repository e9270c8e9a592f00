package share

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/vfs"
)

// damage inverts a bit of the last record of a partition of "jobs", on a disk that nobody uses.
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

// reads returns how often f has logs read.
func (w *world) reads(f func()) int64 {
	before := w.cluster.Stats().FetchRequests
	f()
	return w.cluster.Stats().FetchRequests - before
}

// Checklist row S21.
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

// Checklist row S21.
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

// Checklist row S21: as in Kafka, a group that begins behind the end of a log waits for it.
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
