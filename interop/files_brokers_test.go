package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafkadir"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Three brokers of Kafka continue a cluster of three brokers, each on the directory that Export
// made for it. Acknowledged records survive the kill of one of them.
func TestThreeKafkasTakeOverOurThreeBrokers(t *testing.T) {
	t.Parallel()
	kit := kafkaKit(t)
	dir, home := filepath.Join(t.TempDir(), "data"), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, err := strata.Open(strata.Config{Dir: dir, Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 6, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"}}))
	p, err := producer.New(c, producer.Config{TransactionalID: "shop"})
	require.NoError(t, err)
	want := map[int32][]string{}
	for i := range 60 {
		txn, err := p.Begin(ctx)
		require.NoError(t, err)
		part, value := int32(i%6), fmt.Sprint("value", i)
		require.NoError(t, txn.Send(ctx, record.String("orders", "k", value).To(part)))
		if i%10 == 9 {
			require.NoError(t, txn.Abort(ctx))
			continue
		}
		require.NoError(t, txn.Commit(ctx))
		want[part] = append(want[part], value)
	}
	require.NoError(t, p.Close())
	committed := record.Offsets{}
	for part := range int32(6) {
		committed[record.TopicPartition{Topic: "orders", Partition: part}] = int64(part)
	}
	require.NoError(t, c.ResetOffsets(ctx, "billing", committed))
	require.NoError(t, c.Close())

	exported := filepath.Join(home, "exported")
	report, err := kafkadir.Export(ctx, kafkadir.ExportConfig{Dir: dir, To: exported})
	require.NoError(t, err)
	require.Empty(t, report.Behind)
	for _, id := range report.Brokers {
		require.NoError(t, os.MkdirAll(filepath.Join(home, fmt.Sprint(id)), 0o755))
		require.NoError(t, os.Rename(filepath.Join(exported, fmt.Sprintf("broker-%d", id)), filepath.Join(home, fmt.Sprint(id), "log")))
	}
	brokers, err := kit.StartCluster(ctx, home, 3)
	require.NoError(t, err)
	for _, b := range brokers {
		t.Cleanup(b.Stop)
	}
	k := target{kind: "kafka", addr: brokers[0].Addr + "," + brokers[2].Addr}
	eventually(t, "all replicas are in sync", func() bool {
		topics, err := admin(t, k).ListTopics(within(t), "orders")
		if err != nil {
			return false
		}
		for _, part := range topics["orders"].Partitions {
			if part.Leader < 0 || len(part.ISR) != 3 {
				return false
			}
		}
		return len(topics["orders"].Partitions) == 6
	})

	require.Equal(t, want, readCommittedValues(t, k, "orders", 54))
	var at map[int32]int64
	eventually(t, "the group is loaded", func() bool {
		got, err := admin(t, k).FetchOffsets(within(t), "billing")
		at = map[int32]int64{}
		for part, o := range got["orders"] {
			at[part] = o.At
		}
		return err == nil && len(at) == 6
	})
	for tp, offset := range committed {
		require.Equal(t, offset, at[tp.Partition])
	}

	brokers[1].Kill()
	cl := franz(t, k, kgo.DefaultProduceTopic("orders"), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for part := range int32(6) {
		require.NoError(t, cl.ProduceSync(within(t), &kgo.Record{Partition: part, Value: []byte("next")}).FirstErr())
		want[part] = append(want[part], "next")
	}
	require.Equal(t, want, readCommittedValues(t, k, "orders", 60))
}

// readCommittedValues reads n values of a topic with read_committed, by partition.
func readCommittedValues(t *testing.T, k target, name string, n int) map[int32][]string {
	t.Helper()
	cl := franz(t, k, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	got := map[int32][]string{}
	for read := 0; read < n; {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], string(r.Value))
			read++
		})
	}
	return got
}
