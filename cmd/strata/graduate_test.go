package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafkadir"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// moving makes a cluster in "data" with records, settings and a group.
func moving(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 2, Properties: map[string]string{"retention.ms": "-1"}}))
	require.NoError(t, c.CreateTopic(ctx, "payments", topic.Config{Properties: map[string]string{"cleanup.policy": "compact"}}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(ctx, record.String("orders", "k", "a").To(1), record.String("orders", "k", "b").To(1), record.String("payments", "k", "c"))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, c.ResetOffsets(ctx, "billing", record.Offsets{{Topic: "orders", Partition: 1}: 1}))
	require.NoError(t, c.Close())
}

// contents returns the content of all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		all[path] = string(p)
		return err
	}))
	return all
}

func TestGraduateCheckNamesTheDifferencesAndWritesNothing(t *testing.T) {
	moving(t)
	before := contents(t, "data")
	r := strataRun(t, "graduate", "--check", "--dir", "data")
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, before, contents(t, "data"))
	require.Contains(t, r.out, "change  acknowledged records of orders, payments: in Strata an acknowledged record is on stable storage (fsync); in Kafka it is in the memory of the replicas in sync")
	require.Contains(t, r.out, "change  topics with one replica: orders, payments: they are lost with their broker -> after the move: strata topics reassign --replicas 3\n")
	require.True(t, strings.HasSuffix(r.out, ": ready for strata export\n"), r.out)

	r = strataRun(t, "graduate", "--check", "--dir", "data", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	for _, l := range lines[:len(lines)-1] {
		var f graduateLine
		require.NoError(t, json.Unmarshal([]byte(l), &f))
		require.Contains(t, []kafkadir.Severity{kafkadir.Change, kafkadir.Note}, f.Severity)
		require.NotEmpty(t, f.About)
		require.NotEmpty(t, f.Text)
	}
	var s graduateSummary
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &s))
	require.Equal(t, graduateSummary{"summary", "data", true, 1, 3, 53, 53, 1, s.Bytes}, s)
	require.Positive(t, s.Bytes)
}

func TestGraduateCheckFailsForADirectoryThatExportRejects(t *testing.T) {
	moving(t)
	name := "data/broker-1/orders-1/00000000000000000000.log"
	flip(t, name, 70)
	r := strataRun(t, "graduate", "--check", "--dir", "data")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `(?m)^blocker `+name+`: .* so export rejects the cluster -> strata verify data shows the damage`, r.out)
	require.True(t, strings.HasSuffix(r.out, ": NOT READY\n"), r.out)
	require.Equal(t, exitFailed, strataRun(t, "export", "--dir", "data", "--to", "kafka").code)
	flip(t, name, 70)
	require.Equal(t, exitOK, strataRun(t, "graduate", "--check", "--dir", "data").code)

	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	r = strataRun(t, "graduate", "--check", "--dir", "data")
	require.NoError(t, c.Close())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "blocker broker 1: a process has its directory open, so export rejects it -> stop that process, then check again\n")

	for _, args := range [][]string{{}, {"--check"}, {"--compare"}, {"--check", "--compare", "--dir", "data"}, {"--check", "--dir", "nowhere"}, {"--check", "--dir", "data", "-b", "localhost:9092"}, {"--check", "--dir", "data", "--tls"}, {"--check", "--dir", "data/broker-1"}} {
		r := strataRun(t, append([]string{"graduate"}, args...)...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
	}
}

// The export takes the whole replicas, and lists those that it leaves out.
func TestGraduateCheckIsReadyIfOneReplicaOfThreeIsDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data", Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1, ReplicationFactor: 3}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(t.Context(), record.String("orders", "k", "a"), record.String("orders", "k", "b"))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	log := func(broker string) string { return "data/broker-" + broker + "/orders-0/00000000000000000000.log" }
	flip(t, log("2"), 70)
	flip(t, "data/broker-3/__cluster_metadata-0/00000000000000000000.log", 70)
	r := strataRun(t, "graduate", "--check", "--dir", "data")
	require.Equal(t, exitOK, r.code, r.out)
	require.Regexp(t, `(?m)^note    `+log("2")+`: .*; the export takes the replica of broker [13], and Kafka copies it$`, r.out)
	require.Regexp(t, `(?m)^note    data/broker-3/__cluster_metadata-0/.*; the export takes the metadata of the other brokers$`, r.out)
	require.True(t, strings.HasSuffix(r.out, ": ready for strata export\n"), r.out)
	r = strataRun(t, "export", "--dir", "data", "--to", "kafka")
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "\ndamaged: orders-0 on broker 2: Kafka copies it from the leader: "+log("2")+" is damaged at byte 0: ")

	flip(t, log("1"), 70)
	flip(t, log("3"), 70)
	r = strataRun(t, "graduate", "--check", "--dir", "data")
	require.Equal(t, exitFailed, r.code)
	for _, b := range []string{"1", "2", "3"} {
		require.Contains(t, r.out, "blocker "+log(b)+": ")
	}
	require.Equal(t, exitFailed, strataRun(t, "export", "--dir", "data", "--to", "second").code)
}

func TestGraduateCompareListsEachDifference(t *testing.T) {
	moving(t)
	require.Equal(t, exitOK, strataRun(t, "backup", "data", "saved").code)
	require.Equal(t, exitOK, strataRun(t, "restore", "saved", "moved").code)
	p := start(t, "--dir", "moved")
	compare := func(args ...string) result {
		return strataRun(t, append([]string{"graduate", "--compare", "--dir", "data", "-b", p.addr}, args...)...)
	}
	r := compare()
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, "data and "+p.addr+": 3 topics, 53 partitions, 1 groups with committed offsets and lag 1: equal\n", r.out)

	for _, args := range [][]string{
		{"produce", "orders", "x", "--partition", "1"}, {"topics", "alter", "orders", "--set", "retention.ms=5"}, {"topics", "add-partitions", "payments", "--total", "2"},
		{"topics", "delete-records", "orders", "--partition", "1", "--before", "1"}, {"groups", "reset", "billing", "--topic", "orders", "--to", "latest"},
		{"topics", "create", "new"},
	} {
		require.Equal(t, exitOK, strataRun(t, append(args, "-b", p.addr)...).code, args)
	}
	r = compare()
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, `orders: retention.ms was -1, now 5
payments: partitions was 1, now 2
orders-1: start was 0, now 1
orders-1: end was 2, now 3
group billing, orders-0: committed offset was none, now 0
group billing, orders-0: lag was none, now 0
group billing, orders-1: committed offset was 1, now 3
group billing, orders-1: lag was 1, now 0
data and `+p.addr+`: 3 topics, 53 partitions, 1 groups with committed offsets and lag 1: 8 DIFFERENCES
`, r.out)
	require.Equal(t, exitOK, strataRun(t, "topics", "delete", "orders", "-b", p.addr).code)
	require.Equal(t, exitOK, strataRun(t, "topics", "create", "orders", "--partitions", "2", "-b", p.addr).code)
	r = compare("--json")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, `{"type":"difference","about":"orders","what":"id","before":"`)
	require.Contains(t, r.out, `"about":"orders","what":"retention.ms","before":"-1","after":"the default"}`)
	require.Equal(t, exitOK, strataRun(t, "topics", "delete", "orders", "-b", p.addr).code)
	require.Contains(t, compare().out, "orders: topic was present, now missing\n")

	other := start(t, "--memory")
	r = strataRun(t, "graduate", "--compare", "--dir", "data", "-b", other.addr)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "cluster: id was ")
	r = strataRun(t, "graduate", "--compare", "--dir", "data", "-b", "127.0.0.1:1", "--timeout", "1s")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "no broker answers at 127.0.0.1:1")
	require.Equal(t, exitMisuse, strataRun(t, "graduate", "--compare", "--dir", "data").code, "no cluster given")
}

// The directories of two of three brokers are elsewhere, as with --broker-dir of strata serve. To
// accept a loss of metadata would give up all that they have.
func TestBrokersWithDirectoriesElsewhereAreNamedWithoutDangerousAdvice(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data", Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1, ReplicationFactor: 3}))
	require.NoError(t, c.Close())
	for _, away := range [][]string{{"broker-2", "broker-3"}, {"broker-1", "broker-2"}} {
		for _, name := range away {
			require.NoError(t, os.Rename("data/"+name, name))
		}
		for _, args := range [][]string{
			{"export", "--dir", "data", "--to", "kafka"}, {"graduate", "--check", "--dir", "data"}, {"topics", "list", "--dir", "data"},
			{"graduate", "--compare", "--dir", "data", "-b", "127.0.0.1:1"},
		} {
			r := strataRun(t, args...)
			require.Equal(t, exitFailed, r.code, "%v: %s", args, r.err)
			require.NotContains(t, r.err, "MetadataLoss", args)
			require.NotContains(t, r.err, "--accept", args)
			require.Regexp(t, `move the (broker's directory|directories of all brokers) to data`, r.out+r.err)
		}
		require.NoFileExists(t, "kafka")
		for _, name := range away {
			require.NoError(t, os.Rename(name, "data/"+name))
		}
	}
	require.Equal(t, exitOK, strataRun(t, "export", "--dir", "data", "--to", "kafka").code)
}

func TestErrorsOfAMoveNameTheirCause(t *testing.T) {
	moving(t)
	require.Equal(t, exitOK, strataRun(t, "export", "--dir", "data", "--to", "kafka").code)
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	r := strataRun(t, "graduate", "--compare", "--dir", "data", "-b", "127.0.0.1:1")
	require.NoError(t, c.Close())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "data: ")
	require.Contains(t, r.err, ": stop the process that has it open\n")
	require.NotContains(t, r.err, "instead of --dir", "-b is the other cluster")
	for says, args := range map[string][]string{
		"there is no cluster in kafka":                                              {"export", "--dir", "kafka", "--to", "new"},
		"export to data/new: invalid argument: data and data/new lie in each other": {"export", "--dir", "data", "--to", "data/new"},
	} {
		require.Equal(t, result{exitMisuse, "", "strata: " + says + "\n"}, strataRun(t, args...), args)
	}
	require.Equal(t, result{exitFailed, "", "strata: export to kafka: kafka is not empty: file already exists\n"}, strataRun(t, "export", "--dir", "data", "--to", "kafka"))
	require.NoError(t, os.MkdirAll("several", 0o700))
	require.NoError(t, os.Rename("kafka", "several/broker-1"))
	require.Equal(t, result{exitMisuse, "", "strata: Strata did not write several/broker-1/meta.properties\n"}, strataRun(t, "export", "--dir", "several", "--to", "new"))
}
