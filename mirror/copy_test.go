package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// copyWorld is a world whose network cluster has topic "t" to copy.
func copyWorld(t *testing.T, fn func(t *testing.T, w *world, far *remote.Cluster)) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fn(t, w, far)
	})
}

func openCopy(t *testing.T, from mirror.Source, fsys vfs.FS, topics ...string) *mirror.Copy {
	t.Helper()
	return openCopyWith(t, from, mirror.CopyConfig{Topics: append(topics, "t"), FS: fsys})
}

func openCopyWith(t *testing.T, from mirror.Source, cfg mirror.CopyConfig) *mirror.Copy {
	t.Helper()
	cfg.Dir, cfg.Logger = "copy", slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := mirror.OpenCopy(from, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// startCopy runs a copy until stop, which returns the error of Run.
func startCopy(t *testing.T, c *mirror.Copy) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// caughtUp returns a running copy that has all records of its source.
func caughtUp(t *testing.T, from mirror.Source, disk vfs.FS, topics ...string) (c *mirror.Copy, stop func() error) {
	t.Helper()
	c = openCopy(t, from, disk, topics...)
	stop = startCopy(t, c)
	awaitCopied(t, from, c)
	return c, stop
}

// runFor returns the error of Run, or nil after ten minutes.
func runFor(t *testing.T, c *mirror.Copy) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return c.Run(ctx)
}

// raw returns the batches of a partition as they are stored, and the end of the log.
func raw(t *testing.T, b consumer.LogBackend, p int32) (batches []byte, start, end int64) {
	t.Helper()
	tp := record.TopicPartition{Topic: "t", Partition: p}
	for _, spec := range []partition.OffsetSpec{partition.Earliest, partition.Latest} {
		at, err := b.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{tp: spec}, partition.ReadUncommitted)
		for began := time.Now(); (err != nil || at[tp].Err != nil) && time.Since(began) < time.Minute; { // an earlier request may delay the leader
			at, err = b.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{tp: spec}, partition.ReadUncommitted)
		}
		require.NoError(t, err)
		require.NoError(t, at[tp].Err)
		start, end = end, at[tp].Offset
	}
	for next := start; next < end; {
		resp, err := b.Fetch(t.Context(), &partition.FetchRequest{
			Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
			Isolation:  partition.ReadUncommitted, MaxWait: time.Second,
		})
		require.NoError(t, err)
		require.NoError(t, resp.Partitions[0].Err)
		got := resp.Partitions[0].Bytes
		batches = append(batches, got...)
		for len(got) > 0 {
			batch, n, err := record.Parse(got)
			require.NoError(t, err)
			next, got = batch.NextOffset(), got[n:]
		}
	}
	return batches, start, end
}

// awaitCopied waits until the copy has all that the source has now.
func awaitCopied(t *testing.T, from consumer.LogBackend, c *mirror.Copy) {
	t.Helper()
	for p := range int32(partitions) {
		tp := record.TopicPartition{Topic: "t", Partition: p}
		end, err := from.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{tp: partition.Latest}, partition.ReadUncommitted)
		require.NoError(t, err)
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // virtual time
			at, err := c.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{tp: partition.Latest}, partition.ReadUncommitted)
			require.NoError(t, err)
			if at[tp].Err == nil && at[tp].Offset >= end[tp].Offset {
				break
			}
			require.Less(t, time.Since(began), 10*time.Minute, "partition %d ends at %+v, the source's at %d; %+v", p, at[tp], end[tp].Offset, c.Stats())
		}
	}
}

// identical requires that a copy gets the bytes of its source. Markers of transactions may follow
// later.
func identical(t *testing.T, from, c consumer.LogBackend) {
	t.Helper()
	for p := range int32(partitions) {
		for began := time.Now(); ; time.Sleep(time.Second) { // virtual time
			want, wantStart, wantEnd := raw(t, from, p)
			got, start, end := raw(t, c, p)
			if wantStart == start && wantEnd == end && bytes.Equal(want, got) || time.Since(began) > 10*time.Minute {
				require.Equal(t, []int64{wantStart, wantEnd}, []int64{start, end}, "partition %d", p)
				require.Equal(t, want, got, "partition %d", p)
				break
			}
		}
	}
	same(t, from, c)
}

func TestCopyHasTheBytesOfItsSource(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fd := newFeeder(t, far)
		disk := vfs.Mem()
		c := openCopy(t, far, disk)
		stop := startCopy(t, c)
		for kind := range 3 {
			fd.feed(t, kind, 50)
		}
		awaitCopied(t, far, c)
		fd.feed(t, 2, 20)
		fd.feed(t, 0, 3000)
		awaitCopied(t, far, c)
		identical(t, far, c)
		require.Zero(t, c.Stats().Lag)
		require.Zero(t, c.Stats().Skipped)
		require.Positive(t, c.Stats().Records)
		md, err := far.Metadata(t.Context(), "t")
		require.NoError(t, err)
		mine, err := c.Metadata(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, md.Topics["t"].ID, mine.Topics["t"].ID)
		require.Equal(t, md.ClusterID, c.ClusterID())
		require.NoError(t, stop())

		fd.feed(t, 1, 50) // while it is stopped
		again := startCopy(t, c)
		awaitCopied(t, far, c)
		identical(t, far, c)
		sameOffsets(t, far, c)
		require.NoError(t, again())
	})
}

// sameOffsets requires that offsets by time are the source's.
func sameOffsets(t *testing.T, from, c consumer.LogBackend) {
	t.Helper()
	for _, spec := range []partition.OffsetSpec{partition.Earliest, partition.Latest, partition.MaxTimestamp, 0, 946_684_700_100, 946_684_703_000, 1 << 50} {
		for _, iso := range []partition.Isolation{partition.ReadCommitted, partition.ReadUncommitted} {
			at := map[record.TopicPartition]partition.OffsetSpec{}
			for p := range int32(partitions) {
				at[record.TopicPartition{Topic: "t", Partition: p}] = spec
			}
			want, err := from.ListOffsets(t.Context(), at, iso)
			require.NoError(t, err)
			got, err := c.ListOffsets(t.Context(), at, iso)
			require.NoError(t, err)
			require.Equal(t, want, got, "%d, %v", spec, iso)
		}
	}
}

func TestCopyOfACompactedTopicIsCompacted(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		require.NoError(t, far.DeleteTopic(t.Context(), "t"))
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, Properties: map[string]string{"cleanup.policy": "compact", "segment.ms": "100"}}))
		p, err := producer.New(far, producer.Config{})
		require.NoError(t, err)
		for i := range 3000 {
			_, err := p.Send(t.Context(), record.String("t", fmt.Sprint("key ", i%10), fmt.Sprint(i)).To(int32(i%partitions)))
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, p.Close())
		c, stop := caughtUp(t, far, vfs.Mem())
		newest := func(b consumer.LogBackend) map[string]string {
			values := map[string]string{}
			for r, err := range consumer.Read(t.Context(), b, consumer.ReadConfig{Topic: "t"}) {
				require.NoError(t, err)
				values[fmt.Sprint(r.Partition, " ", string(r.Key))] = string(r.Value)
			}
			return values
		}
		want := newest(far)
		require.Len(t, rows(t, c, "t")[0], 1000)
		time.Sleep(10 * time.Minute) // virtual time, in which it is compacted
		require.Less(t, len(rows(t, c, "t")[0]), 300)
		require.Equal(t, want, newest(c))
		require.NoError(t, stop())
	})
}

func TestCopyIsReadWithoutItsSource(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		want := rows(t, far, "t")
		require.NoError(t, stop())
		require.NoError(t, c.Close())

		c = openCopy(t, nil, disk)
		require.Equal(t, want, rows(t, c, "t"))
		require.ErrorIs(t, runFor(t, c), mirror.ErrNoSource)
		_, err := c.FetchOffsets(t.Context(), "g", nil)
		require.ErrorIs(t, err, mirror.ErrNoSource)
		require.Equal(t, far.ClusterID(), c.ClusterID())
	})
}

// A reader of a copy waits for records that are still on their way.
func TestReaderOfACopyWaitsForNewRecords(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 30)
		c := openCopy(t, far, vfs.Mem())
		stop := startCopy(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan record.Record)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for r, err := range consumer.Follow(ctx, c, consumer.ReadConfig{Topic: "t"}) {
				if err != nil {
					return
				}
				got <- r
			}
		}()
		for range 30 {
			<-got
		}
		fill(t, far, 30, 5)
		for range 5 {
			<-got
		}
		cancel()
		<-ended
		require.NoError(t, stop())
	})
}

// A member of a group that reads from the copy commits at the source; its successor continues
// there.
func TestGroupReadsLocallyAndCommitsAtTheSource(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		c, stop := caughtUp(t, far, vfs.Mem())
		seen := map[string]int{}
		readGroup(t, c, seen, 120)
		require.Len(t, seen, 120)
		readGroup(t, far, seen, 300)
		for at, n := range seen {
			require.Equal(t, 1, n, "reads of %s", at)
		}
		require.NoError(t, stop())
	})
}

// readGroup reads as group "g" until n records are in seen.
func readGroup(t *testing.T, b consumer.Backend, seen map[string]int, n int) {
	t.Helper()
	g, err := consumer.New(b, consumer.Config{Group: "g", Topics: []string{"t"}, Reset: consumer.Earliest(), MaxPollRecords: 10})
	require.NoError(t, err)
	for len(seen) < n {
		batch, err := g.Poll(t.Context())
		require.NoError(t, err)
		for r := range batch.All() {
			seen[fmt.Sprint(r.Partition, " ", r.Offset)]++
		}
		require.NoError(t, g.Commit(t.Context(), slices.Collect(batch.All())...))
	}
	require.NoError(t, g.Close())
}

// A position that the copy has not reached is no reset.
func TestCopyThatIsBehindDoesNotResetAReader(t *testing.T) {
	copyWorld(t, func(t *testing.T, w *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		require.NoError(t, stop())
		fill(t, far, 300, 300)
		tp, next := record.TopicPartition{Topic: "t"}, int64(150)
		fetch := func(wait time.Duration) partition.FetchedPartition {
			resp, err := c.Fetch(t.Context(), &partition.FetchRequest{
				Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}, MaxWait: wait,
			})
			require.NoError(t, err)
			return resp.Partitions[0]
		}
		got := fetch(0)
		require.NoError(t, got.Err, "the source has it")
		require.EqualValues(t, -1, got.HighWatermark)
		w.server.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ListOffsets}, Close: true})
		require.NoError(t, fetch(0).Err, "the source may have it")
		stop = startCopy(t, c)
		got = fetch(time.Minute)
		require.NoError(t, got.Err)
		require.NotEmpty(t, got.Bytes)
		tp.Partition = 1
		next = 201
		require.ErrorIs(t, fetch(time.Minute).Err, partition.ErrOffsetOutOfRange, "the source does not have it")
		require.NoError(t, stop())
		require.NoError(t, c.Close())
		c = openCopy(t, nil, disk)
		require.ErrorIs(t, fetch(time.Minute).Err, partition.ErrOffsetOutOfRange, "there is no source")
	})
}

func TestCopyDeletesWhatItsSourceDeletes(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		c, stop := caughtUp(t, far, vfs.Mem())
		_, err := far.DeleteRecords(t.Context(), map[record.TopicPartition]int64{{Topic: "t"}: 37})
		require.NoError(t, err)
		fill(t, far, 300, 3)
		awaitCopied(t, far, c)
		identical(t, far, c)
		require.Zero(t, c.Stats().Skipped)
		require.NoError(t, stop())

		fill(t, far, 303, 300)
		_, err = far.DeleteRecords(t.Context(), map[record.TopicPartition]int64{{Topic: "t"}: 150, {Topic: "t", Partition: 1}: -1})
		require.NoError(t, err)
		stop = startCopy(t, c)
		awaitCopied(t, far, c)
		identical(t, far, c)
		require.EqualValues(t, 150-101+201-101, c.Stats().Skipped)
		require.NoError(t, stop())
	})
}

// A copy that begins where the source's first record is in the middle of a batch.
func TestCopyBeginsInTheMiddleOfABatch(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		_, err := far.DeleteRecords(t.Context(), map[record.TopicPartition]int64{{Topic: "t"}: 37})
		require.NoError(t, err)
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		identical(t, far, c)
		require.NoError(t, stop())
		require.NoError(t, c.Close())
		c = openCopy(t, far, disk)
		identical(t, far, c)
	})
}

func TestCopyAddsPartitions(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		require.NoError(t, far.DeleteTopic(t.Context(), "t"))
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
		c := openCopy(t, far, vfs.Mem())
		stop := startCopy(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		version, err := c.WaitMetadata(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, far.AddPartitions(t.Context(), "t", partitions))
		fill(t, far, 0, 30)
		_, err = c.WaitMetadata(ctx, version)
		require.NoError(t, err)
		awaitCopied(t, far, c)
		identical(t, far, c)
		require.NoError(t, stop())
	})
}

func TestCopyStopsWhereItsTopicIsNotTheSameAnyMore(t *testing.T) {
	copyWorld(t, func(t *testing.T, w *world, far *remote.Cluster) {
		fill(t, far, 0, 30)
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		want := rows(t, c, "t")
		require.NoError(t, stop())
		require.NoError(t, far.DeleteTopic(t.Context(), "t"))
		require.ErrorIs(t, runFor(t, c), mirror.ErrTopicReplaced)
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		err := runFor(t, c)
		require.ErrorIs(t, err, mirror.ErrTopicReplaced)
		require.Equal(t, &mirror.StopError{Mirror: "copy", Topic: "t", Partition: -1, Offset: -1, Err: errors.Unwrap(err)}, err)
		require.Equal(t, want, rows(t, c, "t"), "the copy keeps them")
		require.NoError(t, c.Close())

		c = openCopy(t, w.local, disk)
		require.ErrorIs(t, runFor(t, c), mirror.ErrOtherSource)
	})
}

func TestCopyOfAnUnknownTopicEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := openCopy(t, w.dial(), vfs.Mem())
		require.ErrorIs(t, runFor(t, c), replication.ErrUnknownTopic)
		require.NoError(t, c.Close())
		c = openCopyWith(t, w.dial(), mirror.CopyConfig{FS: vfs.Mem()})
		var wrong *topic.ConfigError
		require.ErrorAs(t, runFor(t, c), &wrong)
	})
}

// A source that was restored from an older backup has lost records of the copy.
func TestCopyKeepsWhatItsSourceHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		source := func(disk vfs.FS) *strata.Cluster {
			c, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
			require.NoError(t, err)
			return c
		}
		from := source(disk)
		require.NoError(t, from.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fill(t, from, 0, 90)
		require.NoError(t, from.Close())
		older := disk.Kill()
		from = source(disk)
		fill(t, from, 90, 90)

		copied := vfs.Mem()
		c, stop := caughtUp(t, from, copied)
		want := rows(t, c, "t")
		require.NoError(t, stop())
		require.NoError(t, c.Close())
		require.NoError(t, from.Close())

		from = source(older)
		defer func() { require.NoError(t, from.Close()) }()
		for i := range 30 { // a batch ends where the copy does, and the leader epoch is the same
			fill(t, from, 510+15*i, 15)
		}
		kept := openCopy(t, from, copied)
		err := runFor(t, kept)
		require.ErrorIs(t, err, mirror.ErrTruncated)
		require.ErrorContains(t, err, "from offset 30 on", "30 records of each partition are the same")
		require.Equal(t, want, rows(t, kept, "t"))
		require.NoError(t, kept.Close())

		accepted := openCopyWith(t, from, mirror.CopyConfig{Topics: []string{"t"}, FS: copied, AcceptTruncation: true})
		stop = startCopy(t, accepted)
		for accepted.Stats().Lag != 0 {
			time.Sleep(100 * time.Millisecond)
		}
		identical(t, from, accepted)
		require.NoError(t, stop())
	})
}

func promoted(t *testing.T, disk vfs.FS) (*strata.Cluster, *mirror.Promotion) {
	t.Helper()
	_, err := strata.Open(strata.Config{FS: disk, Dir: "copy"})
	require.Error(t, err, "it is no cluster yet")
	done, err := mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: disk, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	c, err := strata.Open(strata.Config{FS: disk, Dir: "copy"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, done
}

func TestPromotedCopyIsACluster(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		for range 5000 { // more than two starts of a cluster use up
			_, _, err := far.InitProducerID(t.Context())
			require.NoError(t, err)
		}
		fd := newFeeder(t, far)
		for kind := range 3 {
			fd.feed(t, kind, 50)
		}
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk)
		want := rows(t, far, "t")
		open, err := producer.New(far, producer.Config{TransactionalID: "open"})
		require.NoError(t, err)
		tx, err := open.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String("t", "", "never").To(0)))
		require.NoError(t, open.Flush(t.Context()))
		awaitCopied(t, far, c)
		require.NoError(t, stop())
		_, err = mirror.Promote(t.Context(), mirror.PromoteConfig{Dir: "copy", FS: disk})
		require.Error(t, err, "the copy is open")
		require.NoError(t, c.Close())
		require.NoError(t, tx.Abort(t.Context()))
		require.NoError(t, open.Close())

		local, done := promoted(t, disk)
		require.Equal(t, mirror.Promotion{ClusterID: local.ClusterID(), Topics: 1, Partitions: partitions, Aborted: 1}, *done)
		require.NotEqual(t, far.ClusterID(), local.ClusterID())
		require.Equal(t, want, rows(t, local, "t"))
		fill(t, local, 10_000, 30)
		require.Equal(t, len(want[0])+10, len(rows(t, local, "t")[0]))
		all, _, _ := raw(t, far, 0)
		id, _, err := local.InitProducerID(t.Context())
		require.NoError(t, err)
		for len(all) > 0 {
			batch, n, err := record.Parse(all)
			require.NoError(t, err)
			require.Less(t, batch.ProducerID, id, "a new producer gets the id of one of the source")
			all = all[n:]
		}
		md, err := far.Metadata(t.Context(), "t")
		require.NoError(t, err)
		mine, err := local.Metadata(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, md.Topics["t"].ID, mine.Topics["t"].ID)
		for p := range partitions {
			require.Greater(t, mine.Topics["t"].Partitions[p].LeaderEpoch, md.Topics["t"].Partitions[p].LeaderEpoch)
		}
		_, err = mirror.OpenCopy(far, mirror.CopyConfig{Dir: "copy", FS: disk})
		require.Error(t, err)
	})
}

// Groups continue where they were if their offsets are copied too.
func TestPromotedCopyHasTheGroupsOffsets(t *testing.T) {
	copyWorld(t, func(t *testing.T, _ *world, far *remote.Cluster) {
		fill(t, far, 0, 300)
		seen := map[string]int{}
		readGroup(t, far, seen, 120)
		disk := vfs.Mem()
		c, stop := caughtUp(t, far, disk, "__consumer_offsets")
		for c.Stats().Lag != 0 {
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, stop())
		require.NoError(t, c.Close())

		local, _ := promoted(t, disk)
		readGroup(t, local, seen, 300)
		for at, n := range seen {
			require.Equal(t, 1, n, "reads of %s", at)
		}
	})
}
