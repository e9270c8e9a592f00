package strata_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A Cluster is a backend of producers and consumers, and of group administration.
var (
	_ producer.Backend = (*strata.Cluster)(nil)
	_ consumer.Backend = (*strata.Cluster)(nil)
	_ group.Admin      = (*strata.Cluster)(nil)
)

func Example() {
	ctx := context.Background()
	c, err := strata.Open(strata.Config{}) // in memory; Dir keeps it in files
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if err := c.CreateTopic(ctx, "orders", topic.Config{Partitions: 3}); err != nil {
		panic(err)
	}
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if _, err := p.Send(ctx, record.String("orders", "user-1", "two shirts")); err != nil {
		panic(err)
	}
	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
	if err != nil {
		panic(err)
	}
	defer g.Close()
	for r, err := range g.Records(ctx) {
		fmt.Println(string(r.Key), string(r.Value), err)
		break
	}
	// Output: user-1 two shirts <nil>
}

// consume reads n records as a member of a group that commits each.
func consume(t *testing.T, c *strata.Cluster, n int) (values []string) {
	t.Helper()
	g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}, Commit: consumer.CommitManual})
	require.NoError(t, err)
	for r, err := range g.Records(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, g.Commit(t.Context(), r))
		if values = append(values, string(r.Value)); len(values) == n {
			break
		}
	}
	require.NoError(t, g.Close())
	return values
}

func send(t *testing.T, c *strata.Cluster, values ...string) {
	t.Helper()
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for _, v := range values {
		_, err := p.Send(t.Context(), record.String("orders", "user-1", v))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
}

func TestRecordsAndGroupsAreThereAfterReopening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}))
	send(t, c, "a", "b", "c")
	require.Equal(t, []string{"a", "b"}, consume(t, c, 2))
	require.NoError(t, c.Close())

	c, err = strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	send(t, c, "d")
	require.Equal(t, []string{"c", "d"}, consume(t, c, 2), "the group goes on where it was")
	g, err := c.Group(t.Context(), "billing")
	require.NoError(t, err)
	require.Zero(t, g.Lag())
	require.NoError(t, c.Close())
}

func TestDirectoryServesOneClusterAtATime(t *testing.T) {
	dir := t.TempDir()
	c, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	_, err = strata.Open(strata.Config{Dir: dir})
	require.ErrorIs(t, err, replication.ErrLocked)
	require.NoError(t, c.Close())
	c, err = strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestFailedOpenLeavesNothingOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := strata.Open(strata.Config{Dir: dir, Group: group.Config{MaxSize: -1}})
	require.Error(t, err)
	c, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err, "its lock was given back")
	require.NoError(t, c.Close())
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	tp := record.TopicPartition{Topic: "orders"}
	free, err := consumer.New(c, consumer.Config{Assign: record.Offsets{tp: consumer.StartEarliest}, MaxWait: time.Hour})
	require.NoError(t, err)
	version, err := c.WaitMetadata(t.Context(), -1)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := c.WaitMetadata(t.Context(), version)
		waited <- err
	}()
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	require.ErrorIs(t, <-waited, replication.ErrClosed)
	closers.Wait()
	require.NoError(t, free.Close())
	require.ErrorIs(t, c.CreateTopic(t.Context(), "late", topic.Config{Partitions: 1}), replication.ErrClosed)
	_, err = c.Groups(t.Context())
	require.ErrorIs(t, err, group.ErrClosed)
}

func TestOffsetsAreAskedByPlaceAndTime(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p, err := producer.New(c, producer.Config{Partitioner: topic.Manual()})
	require.NoError(t, err)
	defer p.Close()
	for _, minutes := range []int{0, 30, 10} {
		_, err := p.Send(t.Context(), record.Record{Topic: "orders", Value: []byte("v"), Timestamp: noon.Add(time.Duration(minutes) * time.Minute)})
		require.NoError(t, err)
	}
	zero, one := record.TopicPartition{Topic: "orders"}, record.TopicPartition{Topic: "orders", Partition: 1}
	for _, want := range []struct {
		name string
		got  func() (record.Offsets, error)
		is   record.Offsets
	}{
		{"earliest", func() (record.Offsets, error) { return c.Offsets(t.Context(), "orders", strata.Earliest) }, record.Offsets{zero: 0, one: 0}},
		{"latest", func() (record.Offsets, error) { return c.Offsets(t.Context(), "orders", strata.Latest) }, record.Offsets{zero: 3, one: 0}},
		{"newest", func() (record.Offsets, error) { return c.Offsets(t.Context(), "orders", strata.MaxTimestamp) }, record.Offsets{zero: 1}},
		{"from 12:05", func() (record.Offsets, error) {
			return c.Offsets(t.Context(), "orders", strata.At(noon.Add(5*time.Minute)))
		}, record.Offsets{zero: 1}},
		{"from 13:00", func() (record.Offsets, error) {
			return c.Offsets(t.Context(), "orders", strata.At(noon.Add(time.Hour)))
		}, record.Offsets{}},
	} {
		got, err := want.got()
		require.NoError(t, err, want.name)
		require.Equal(t, want.is, got, want.name)
	}
	_, err = c.Offsets(t.Context(), "nothing", strata.Latest)
	require.True(t, errors.Is(err, strata.ErrUnknownTopic), "%v", err)
}
