package interop

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

var _ = add("remote/copy", remoteCopy)

// remoteCopy copies a topic with transactions and the offsets of a group, and continues in the
// cluster that is made of the copy.
func remoteCopy(t *testing.T, k target) {
	far, n := connect(t, k), 3000
	name, group, dir := create(t, far, 3), fresh("group"), t.TempDir()
	send(t, far, producer.Config{Compression: record.Zstd}, name, n)
	p, err := producer.New(far, producer.Config{TransactionalID: fresh("id")})
	require.NoError(t, err)
	for i := range 20 {
		tx, err := p.Begin(within(t))
		require.NoError(t, err)
		require.NoError(t, tx.Send(within(t), record.String(name, fmt.Sprint(i%3), fmt.Sprint("in transaction ", i))))
		if i%2 == 0 {
			require.NoError(t, tx.Commit(within(t)))
		} else {
			require.NoError(t, tx.Abort(within(t)))
		}
	}
	require.NoError(t, p.Close())

	c, err := mirror.OpenCopy(far, mirror.CopyConfig{Dir: dir, Topics: []string{name, "__consumer_offsets"}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	equal := func() bool {
		for i := range int32(3) {
			want, got := bytesOf(t, far, name, i), bytesOf(t, c, name, i)
			if string(want) != string(got) {
				return false
			}
		}
		return true
	}
	eventually(t, "the copy has the bytes of its source", equal)

	// A member of a group reads the copy and commits at the source.
	seen := map[string]bool{}
	readSome := func(b consumer.Backend, until int) {
		m, err := consumer.New(b, consumer.Config{Group: group, Topics: []string{name}, Reset: consumer.Earliest(), MaxPollRecords: 100})
		require.NoError(t, err)
		for len(seen) < until {
			batch, err := m.Poll(within(t))
			require.NoError(t, err)
			var rs []record.Record
			for r := range batch.All() {
				at := fmt.Sprint(r.Partition, " ", r.Offset)
				require.False(t, seen[at], "%s is read again", at)
				seen[at], rs = true, append(rs, r)
			}
			require.NoError(t, m.Commit(within(t), rs...))
		}
		require.NoError(t, m.Close())
	}
	readSome(c, n/3)
	readSome(far, 2*n/3)
	md, err := far.Metadata(within(t), "__consumer_offsets")
	require.NoError(t, err)
	at := offsetsPartition(group) % int32(len(md.Topics["__consumer_offsets"].Partitions))
	eventually(t, "the commits are copied", func() bool {
		want, got := bytesOf(t, far, "__consumer_offsets", at), bytesOf(t, c, "__consumer_offsets", at)
		return len(want) > 0 && string(want) == string(got)
	})
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, c.Close())

	_, err = mirror.Promote(within(t), mirror.PromoteConfig{Dir: dir})
	require.NoError(t, err)
	local, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, local.Close()) }()
	readSome(local, n+10)
}

// offsetsPartition returns the number that selects the partition with the offsets of a group.
// Kafka: Utils.abs of String.hashCode.
func offsetsPartition(group string) int32 {
	hash := int32(0)
	for _, c := range []byte(group) {
		hash = 31*hash + int32(c)
	}
	return max(hash, -hash)
}

// bytesOf returns the batches of a partition as they are stored.
func bytesOf(t *testing.T, b consumer.LogBackend, name string, p int32) (batches []byte) {
	t.Helper()
	for next := int64(0); ; {
		resp, err := b.Fetch(within(t), &partition.FetchRequest{
			Partitions: []partition.FetchPartition{{TopicPartition: record.TopicPartition{Topic: name, Partition: p}, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}},
			Isolation:  partition.ReadUncommitted,
		})
		require.NoError(t, err)
		if resp.Partitions[0].Err != nil { // the copy does not have it yet
			return nil
		}
		got := resp.Partitions[0].Bytes
		if len(got) == 0 {
			return batches
		}
		batches = append(batches, got...)
		for len(got) > 0 {
			batch, size, err := record.Parse(got)
			require.NoError(t, err)
			next, got = batch.NextOffset(), got[size:]
		}
	}
}
