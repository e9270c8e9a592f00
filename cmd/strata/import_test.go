package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestExportAndImportBringAClusterToKafkaAndBack(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(t.Context(), record.String("orders", "k", "a").To(1), record.String("orders", "k", "b").To(1))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	r := strataRun(t, "export", "--dir", "data", "--to", "kafka")
	require.Equal(t, exitFailed, r.code, "it is open")
	require.Contains(t, r.err, "in use")
	require.NoError(t, c.Close())

	r = strataRun(t, "export", "--dir", "data", "--to", "kafka")
	require.Equal(t, exitOK, r.code, r.err)
	require.Empty(t, r.err, "there is no terminal")
	require.True(t, strings.HasPrefix(r.out, "export: data to kafka: 1 topics, 2 partitions, "), r.out)
	require.Equal(t, exitMisuse, strataRun(t, "import", "--dir", "back").code)
	require.Equal(t, exitFailed, strataRun(t, "import", "--from", "data", "--dir", "back").code)

	r = strataRun(t, "import", "--from", "kafka", "--dir", "back", "--topics", "orders")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "was shut down cleanly\nretention is unlimited (retention.ms=-1) until you set it: orders\n")
	r = strataRun(t, "consume", "orders", "--dir", "back", "--values")
	require.Equal(t, "a\nb\n", r.out, r.err)

	require.NoError(t, os.RemoveAll("kafka/orders-0"))
	r = strataRun(t, "import", "--from", "kafka", "--dir", "again")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "orders-0 (it has no directory); --allow-missing continues without them")
	r = strataRun(t, "import", "--from", "kafka", "--dir", "again", "--allow-missing", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, `"missing":[{"topic":"orders","partition":0,"reason":"it has no directory"}]`)
	require.Contains(t, r.out, `"retentionOff":true`)

	require.NoError(t, os.Remove("kafka/.kafka_cleanshutdown"))
	require.NoError(t, os.WriteFile("kafka/replication-offset-checkpoint", []byte("0\n1\norders 1 9\n"), 0o600))
	r = strataRun(t, "import", "--from", "kafka", "--dir", "killed", "--allow-missing")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "gap: orders-1 has no offsets 2 to 8: replication-offset-checkpoint knows of them")
}

func TestExportOfThreeBrokersMakesThreeLogDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data", Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2, ReplicationFactor: 3}))
	require.NoError(t, c.Close())
	r := strataRun(t, "export", "--dir", "data", "--to", "kafka")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "\n3 log directories: broker-1, broker-2, broker-3, each for the broker with that node.id\n")
	for _, dir := range []string{"broker-1", "broker-2", "broker-3"} {
		require.FileExists(t, "kafka/"+dir+"/meta.properties")
		require.DirExists(t, "kafka/"+dir+"/orders-1")
	}
	require.NoError(t, os.RemoveAll("data/broker-2"))
	r = strataRun(t, "export", "--dir", "data", "--to", "again", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "kafkadir: directory of a broker is missing: ")
}
