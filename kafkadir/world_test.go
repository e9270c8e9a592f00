package kafkadir

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A world has all parts of a cluster that must survive an export or import.
type world struct {
	topics  map[string]string // id, settings
	logs    map[string]string // start, end and the bytes of all batches, by partition
	offsets map[string]int64  // committed
	users   []string
	acls    []acl.Entry
	quotas  []string
	tokens  []replication.DelegationToken
	states  []string                     // of transactional ids
	configs map[string]map[string]string // of client metrics and of a group
}

func open(t *testing.T, fsys vfs.FS, dir string) *strata.Cluster {
	t.Helper()
	cfg := strata.Config{FS: fsys, Dir: dir}
	cfg.Group.OffsetsPartitions, cfg.Transactions.Topic.Partitions = 2, 2
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	return c
}

// fill makes a cluster in "data" that has one of everything. A transaction is open, as after a
// kill of the process.
func fill(t *testing.T) *vfs.MemFS {
	t.Helper()
	disk := vfs.Mem()
	founded, err := replication.Open(replication.Config{FS: disk, Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, founded.SkipProducerIDs(t.Context(), 100_000)) // more than a new one has
	require.NoError(t, founded.Close())
	c := open(t, disk, "data")
	defer func() { require.NoError(t, c.Close()) }()
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 3, Properties: map[string]string{"retention.ms": "5000000", "segment.bytes": "1048576"}}))
	require.NoError(t, c.CreateTopic(ctx, "latest", topic.Config{Properties: map[string]string{"cleanup.policy": "compact"}}))
	require.NoError(t, c.CreateTopic(ctx, "never.written", topic.Config{Partitions: 2}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range 60 {
		value := bytes.Repeat([]byte{byte(i)}, 40_000) // several segments
		_, err := p.Send(ctx, record.Record{Topic: "orders", Key: fmt.Append(nil, i), Value: value})
		require.NoError(t, err)
		_, err = p.Send(ctx, record.Record{Topic: "latest", Key: fmt.Append(nil, i%3), Value: fmt.Append(nil, i)})
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	for i, id := range []string{"committed", "aborted", "open"} {
		p, err := producer.New(c, producer.Config{TransactionalID: id})
		require.NoError(t, err)
		txn, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, txn.Send(ctx, record.String("orders", id, "in a transaction").To(0)))
		require.NoError(t, p.Flush(ctx))
		switch i {
		case 0:
			require.NoError(t, txn.Commit(ctx))
		case 1:
			require.NoError(t, txn.Abort(ctx))
		}
		defer p.Close() // Close aborts the open one
		for i < 2 {     // until all markers are written
			d, err := c.Transaction(ctx, id)
			require.NoError(t, err)
			if strings.HasPrefix(fmt.Sprint(d.State), "Complete") {
				break
			}
			runtime.Gosched()
		}
	}
	_, err = c.DeleteRecords(ctx, map[record.TopicPartition]int64{{Topic: "orders", Partition: 1}: 3})
	require.NoError(t, err)
	require.NoError(t, c.ResetOffsets(ctx, "readers", record.Offsets{{Topic: "orders", Partition: 0}: 2, {Topic: "orders", Partition: 2}: 1}))
	require.NoError(t, c.Backend().AlterClientMetricsProperties(ctx, "slow", func(map[string]string) (map[string]string, error) {
		return map[string]string{"interval.ms": "30000", "match": "client_id=web.*"}, nil
	}))
	require.NoError(t, c.Backend().AlterGroupConfig(ctx, group.ConfigAlteration{Group: "readers", Changes: []replication.ConfigChange{
		{Key: "consumer.session.timeout.ms", Value: "50000"},
	}}))
	require.NoError(t, c.SetPassword(ctx, "alice", "secret"))
	require.NoError(t, c.CreateACLs(ctx, acl.Entry{
		ResourceType: acl.Topic, ResourceName: "orders", PatternType: acl.Literal, Principal: "User:alice", Host: "*", Operation: acl.Read, Permission: acl.Allow,
	}))
	now := time.Now()
	require.NoError(t, c.Backend().CreateDelegationToken(ctx, replication.DelegationToken{
		ID: "token", Owner: "User:alice", Requester: "User:bob", Renewers: []string{"User:carol"}, Issued: now, Max: now.Add(2 * time.Hour), Expires: now.Add(time.Hour),
	}))
	refused, err := c.AlterClientQuotas(ctx,
		replication.QuotaChange{Entity: replication.QuotaEntity{User: replication.QuotaName{Name: "alice"}, ClientID: replication.QuotaName{Default: true}}, Changes: []replication.QuotaValue{
			{Key: replication.ProducerByteRate, Value: 1000}, {Key: replication.RequestPercentage, Value: 12.5},
		}},
		replication.QuotaChange{Entity: replication.QuotaEntity{IP: replication.QuotaName{Name: "::1"}}, Changes: []replication.QuotaValue{{Key: replication.ConnectionCreationRate, Value: 5}}},
	)
	require.NoError(t, err)
	require.Empty(t, refused)
	return disk.Kill()
}

// look returns the world of a cluster.
func look(t *testing.T, fsys vfs.FS, dir string) world {
	t.Helper()
	c := open(t, fsys, dir)
	defer func() { require.NoError(t, c.Close()) }()
	w := world{topics: map[string]string{}, logs: map[string]string{}, offsets: map[string]int64{}, acls: c.ACLs().Matching(acl.Everything())}
	infos, err := c.Topics(t.Context())
	require.NoError(t, err)
	for _, info := range infos {
		config := info.Settings.Explicit()
		text := info.ID.String()
		for _, k := range slices.Sorted(maps.Keys(config)) {
			text += " " + k + "=" + config[k]
		}
		w.topics[info.Name] = text
		for _, part := range info.Partitions {
			require.NoError(t, part.Err)
			tp := record.TopicPartition{Topic: info.Name, Partition: part.Partition}
			all := batches(t, c, tp, part.LogStartOffset, part.LogEndOffset)
			w.logs[partitionName(tp)] = fmt.Sprintf("%d to %d: %d bytes %x", part.LogStartOffset, part.LogEndOffset, len(all), sha256.Sum256(all))
		}
	}
	groups, err := c.Groups(t.Context())
	require.NoError(t, err)
	for _, g := range groups {
		g, err := c.Group(t.Context(), g.ID)
		require.NoError(t, err)
		for tp, o := range g.Offsets {
			w.offsets[fmt.Sprint(g.ID, " ", partitionName(tp))] = o.Offset
		}
	}
	for user, creds := range c.ScramUsers() {
		for _, cred := range creds {
			w.users = append(w.users, fmt.Sprintf("%s %v %x %x %x %d", user, cred.Mechanism, cred.Salt, cred.StoredKey, cred.ServerKey, cred.Iterations))
		}
	}
	slices.Sort(w.users)
	for q := range c.ClientQuotas().All() {
		w.quotas = append(w.quotas, fmt.Sprint(q.Entity, " ", q.Key, "=", q.Value))
	}
	w.configs, _ = c.Backend().ClientMetricsProperties()
	w.configs["group readers"] = c.Backend().GroupProperties("readers")
	w.tokens = slices.Collect(c.Backend().DelegationTokens().All())
	all, err := c.Transactions(t.Context())
	require.NoError(t, err)
	for _, d := range all {
		w.states = append(w.states, fmt.Sprint(d.ID, " ", d.State, " ", d.Producer.ID, " ", d.Partitions))
	}
	return w
}

// batches returns the bytes of all batches of a partition.
func batches(t *testing.T, c *strata.Cluster, tp record.TopicPartition, from, end int64) (all []byte) {
	t.Helper()
	for at := from; at < end; {
		got, err := c.Fetch(t.Context(), &partition.FetchRequest{
			Partitions: []partition.FetchPartition{{TopicPartition: tp, Offset: at, MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}, Isolation: partition.ReadUncommitted,
		})
		require.NoError(t, err)
		require.NoError(t, got.Partitions[0].Err)
		if len(got.Partitions[0].Bytes) == 0 {
			return all
		}
		for p := got.Partitions[0].Bytes; len(p) > 0; {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			all, p, at = append(all, b.Bytes()...), p[n:], b.NextOffset()
		}
	}
	return all
}

// files returns the content of all files below a directory.
func files(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(all, files(t, fsys, path))
			continue
		}
		p, err := vfs.ReadFile(fsys, path)
		require.NoError(t, err)
		all[path] = string(p)
	}
	return all
}

// readCommitted returns the values that a read_committed reader finds.
func readCommitted(t *testing.T, c *strata.Cluster, name string) (values []string) {
	t.Helper()
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: name}) {
		require.NoError(t, err)
		values = append(values, string(r.Value))
	}
	return values
}
