package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// open opens a cluster on fsys that is closed with the test.
func open(t *testing.T, fsys vfs.FS) *Cluster {
	t.Helper()
	return openWith(t, Config{FS: fsys, Dir: "data"})
}

func openWith(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func create(t *testing.T, c *Cluster, name string, partitions int, props ...string) {
	t.Helper()
	require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: partitions, Properties: properties(props...)}))
}

func properties(props ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(props); i += 2 {
		m[props[i]] = props[i+1]
	}
	return m
}

func at(name string, p int32) record.TopicPartition {
	return record.TopicPartition{Topic: name, Partition: p}
}

// batch returns an encoded batch with a record for each value.
func batch(values ...string) []byte {
	var b record.Builder
	b.Reset(0)
	for _, v := range values {
		b.AppendKV(time.Now().UnixMilli(), []byte("k"), []byte(v), nil)
	}
	p, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return p
}

// produce appends one batch and waits for the acknowledgement.
func produce(t *testing.T, c *Cluster, tp record.TopicPartition, values ...string) partition.ProduceResult {
	t.Helper()
	res := tryProduce(c, tp, values...)
	require.NoError(t, res.Err)
	return res
}

func tryProduce(c *Cluster, tp record.TopicPartition, values ...string) partition.ProduceResult {
	done := make(chan partition.ProduceResult, 1)
	c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch(values...), Done: func(r partition.ProduceResult) { done <- r }})
	return <-done
}

// values returns all values of a partition.
func values(t *testing.T, c *Cluster, tp record.TopicPartition) []string {
	t.Helper()
	vs, err := tryValues(t.Context(), c, tp)
	require.NoError(t, err)
	return vs
}

func tryValues(ctx context.Context, c *Cluster, tp record.TopicPartition) ([]string, error) {
	var vs []string
	for next := int64(0); ; {
		resp, err := c.Fetch(ctx, &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: next, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
		if err != nil {
			return nil, err
		}
		got := resp.Partitions[0]
		if got.Err != nil || len(got.Bytes) == 0 {
			return vs, got.Err
		}
		for p := got.Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			if err != nil {
				return nil, err
			}
			for r, err := range b.All() {
				if err != nil {
					return nil, err
				}
				if r.Offset != next {
					return nil, fmt.Errorf("offset %d instead of %d", r.Offset, next)
				}
				vs, next = append(vs, string(r.Value)), next+1
			}
			p = p[n:]
		}
	}
}

func names(t *testing.T, c *Cluster) []string {
	t.Helper()
	infos, err := c.Topics(t.Context())
	require.NoError(t, err)
	var ns []string
	for _, i := range infos {
		ns = append(ns, i.Name)
	}
	return ns
}

type tp = record.TopicPartition

// partitionDirs returns the directories of partitions, of all brokers.
func partitionDirs(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	ids, err := brokersIn(fsys, "data")
	require.NoError(t, err)
	var dirs []string
	for _, id := range ids {
		entries, err := fsys.ReadDir(fmt.Sprint("data/broker-", id))
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() && e.Name() != "__cluster_metadata-0" {
				dirs = append(dirs, e.Name())
			}
		}
	}
	return dirs
}

// servedDirs returns the directories of partitions, except the deleted ones whose removal is
// pending.
func servedDirs(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	return slices.DeleteFunc(partitionDirs(t, fsys), func(name string) bool { return strings.HasSuffix(name, deleteSuffix) })
}

var (
	errDisk    = errors.New("disk full")
	errCorrupt = record.ErrCorrupt
)

// keyBatch returns an encoded batch of one record with this key.
func keyBatch(key string) []byte {
	var b record.Builder
	b.Reset(0)
	b.AppendKV(time.Now().UnixMilli(), []byte(key), []byte("v"), nil)
	p, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	return p
}
