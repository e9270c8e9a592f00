package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// Two transactions of an hour ago: one has a coordinator's record, the other has none.
func TestTransactionsAreListedAndHangingOnesAborted(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	produce := func(brokers *replication.Cluster, to string, p transaction.Producer) {
		var b record.Builder
		b.Reset(0)
		b.SetProducer(p.ID, p.Epoch, 0)
		b.SetTransactional(true)
		b.AppendKV(time.Now().Add(-time.Hour).UnixMilli(), nil, []byte("x"), nil)
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		done := make(chan error, 1)
		brokers.Produce(&partition.ProduceRequest{TopicPartition: record.TopicPartition{Topic: to}, Batch: batch, Acks: record.AcksAll,
			TransactionalID: "billing", TxnVersion: 2, Done: func(r partition.ProduceResult) { done <- r.Err }})
		require.NoError(t, <-done)
	}
	brokers, err := replication.Open(replication.Config{Dir: dir})
	require.NoError(t, err)
	for _, name := range []string{"orders", "payments"} {
		require.NoError(t, brokers.CreateTopic(ctx, name, topic.Config{}))
	}
	produce(brokers, "orders", transaction.Producer{ID: 5000, Epoch: 3})
	require.NoError(t, brokers.Close())
	c, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	p, err := c.TransactionCoordinator().InitProducerID(ctx, "billing", 15*time.Minute, transaction.NoProducer)
	require.NoError(t, err)
	produce(c.Backend().Cluster, "payments", p)
	require.NoError(t, c.Close())

	tell := func(args ...string) string {
		return session(t, []string{"--dir", dir}, append([]string{"transactions"}, args...))
	}
	require.Regexp(t, `\nbilling: Ongoing, producer \d+\n$`, tell("list"))
	require.Regexp(t, `"type":"transaction","transactionalId":"billing","state":"Ongoing","producerId":\d+}`, tell("list", "--json"))
	require.Regexp(t, `\nbilling: Ongoing, producer \d+ epoch 0, timeout 15m0s, since .*: payments-0\n$`, tell("describe", "billing"))
	require.Contains(t, tell("describe", "nobody"), "nobody: no such transactional id\nexit code 1")
	hangs := "orders-0: producer 5000 epoch 3, open from offset 0, last written "
	require.Regexp(t, `find-hanging\n`+hangs+`.*\n$`, tell("find-hanging"))
	require.Regexp(t, `"type":"hanging","topic":"orders","partition":0,"producerId":5000,"producerEpoch":3,"startOffset":0`, tell("find-hanging", "--topic", "orders", "--json"))
	require.NotContains(t, tell("find-hanging", "--max-timeout", "2h"), "orders-0", "it may still be written in")
	require.NotContains(t, tell("find-hanging", "--topic", "payments"), "producer")
	abort := func(topic, start string) string {
		return tell("abort", "--topic", topic, "--partition", "0", "--start-offset", start)
	}
	require.Contains(t, abort("payments", "0"), "payments-0: no hanging transaction begins at offset 0\nexit code 1", "its coordinator ends it")
	require.Contains(t, abort("orders", "1"), "exit code 1")
	require.Contains(t, abort("orders", "0"), "\naborted "+hangs)
	require.Contains(t, abort("orders", "0"), "exit code 1", "it has ended")
	require.NotContains(t, tell("find-hanging"), "producer")
	require.Contains(t, tell("describe", "billing"), "Ongoing")
	require.Contains(t, tell(), "exit code 2")
}
