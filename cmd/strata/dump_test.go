package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/sharelog"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

func TestDumpOfEveryKindOfFile(t *testing.T) {
	inKafkaDirectory(t)
	files := append(glob(t, "log/transactions-0/*"), glob(t, "log/*-checkpoint")...)
	files = append(files, "log/meta.properties", "log/.kafka_cleanshutdown", "log/bootstrap.checkpoint", "killed/rolled-0/00000000000000000010.index")
	for _, mode := range []string{"text", "json"} {
		args := append([]string{"dump"}, files...)
		if mode == "json" {
			args = append(args, "--json")
		}
		r := strataRun(t, args...)
		require.Equal(t, exitOK, r.code, r.err)
		golden(t, "dump-files."+mode, r.out)
	}
}

func TestDumpDecodesRecordsByTheNameOfTheirDirectory(t *testing.T) {
	inKafkaDirectory(t)
	files := append(glob(t, "log/__consumer_offsets-[03]/*.log"), "log/rolled-0/00000000000000000000.log")
	args := append([]string{"dump", "-v"}, files...)
	r := strataRun(t, args...)
	require.Equal(t, exitOK, r.code, r.err)
	metadata := strataRun(t, "dump", "-v", "--from", "120", "--max-batches", "12", glob(t, "log/__cluster_metadata-0/*.log")[0])
	require.Equal(t, exitOK, metadata.code, metadata.err)
	golden(t, "dump-records.text", r.out+metadata.out)
	r = strataRun(t, append(args, "--json")...)
	golden(t, "dump-records.json", r.out)
}

// The output of kafka-dump-log --transaction-log-decoder of Kafka 4.3 for the same files.
func TestDumpShowsOfTransactionsWhatKafkasToolShows(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-dump-log-transactions.text")
	require.NoError(t, err)
	line := regexp.MustCompile(`^\| offset: (\d+) .* key: (\{.*\}) payload: (\{.*\})$`)
	inKafkaDirectory(t)
	states := []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}
	var want, got []string
	var file string
	for l := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(l), "Dumping "); ok {
			file = name
			continue
		}
		m := line.FindStringSubmatch(strings.TrimSpace(l))
		require.NotNil(t, m, l)
		var k struct {
			Data struct{ TransactionalID string }
		}
		require.NoError(t, json.Unmarshal([]byte(m[2]), &k))
		var p struct {
			Version string
			Data    map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(m[3]), &p))
		version, err := strconv.ParseFloat(p.Version, 64)
		require.NoError(t, err)
		partitions := []any{}
		topics, _ := p.Data["transactionPartitions"].([]any)
		for _, x := range topics {
			for _, n := range x.(map[string]any)["partitionIds"].([]any) {
				partitions = append(partitions, fmt.Sprintf("%s-%v", x.(map[string]any)["topic"], n))
			}
		}
		decoded := map[string]any{
			"kind": "transaction", "transactionalId": k.Data.TransactionalID, "version": version, "partitions": partitions,
			"state": states[int(p.Data["transactionStatus"].(float64))], "timeoutMs": p.Data["transactionTimeoutMs"],
			"startMs": p.Data["transactionStartTimestampMs"], "updateMs": p.Data["transactionLastUpdateTimestampMs"],
		}
		for name, v := range p.Data {
			if !strings.HasPrefix(name, "transaction") {
				decoded[name] = v
			}
		}
		want = append(want, fmt.Sprintf("%s %s %v", file, m[1], decoded))
	}
	r := strataRun(t, append([]string{"dump", "-v", "--json"}, glob(t, "log/__transaction_state-*/*.log")...)...)
	require.Equal(t, exitOK, r.code, r.err)
	for l := range strings.Lines(r.out) {
		var v struct {
			Type, File string
			Offset     int64
			Decoded    map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(l), &v))
		if v.Type == "record" {
			got = append(got, fmt.Sprintf("%s %d %v", v.File, v.Offset, v.Decoded))
		}
	}
	require.Len(t, want, 37)
	require.Equal(t, want, got)
}

func TestDumpDecodesEveryFormOfATransactionsState(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(level int16, id string, v *txnlog.Value) []byte {
		var b record.Builder
		var value []byte
		if v != nil {
			value = v.AppendTo(nil, level)
		}
		b.AppendKV(1000, txnlog.AppendKey(nil, id), value, nil)
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		return batch
	}
	v := txnlog.Value{ProducerID: 7, Epoch: 3, TimeoutMs: 60_000, State: txnlog.PrepareCommit, UpdateMs: 12, StartMs: 11, PreviousID: -1, NextID: -1, LastEpoch: -1,
		Partitions: []record.TopicPartition{{Topic: "orders", Partition: 2}, {Topic: "__consumer_offsets", Partition: 9}}}
	old := v
	v.PreviousID, v.NextID, v.ClientVersion, v.LastEpoch = 6, 8, 2, 2
	var file []byte
	for i, batch := range [][]byte{write(0, "old", &old), write(2, "new", &v), write(2, "gone", nil)} {
		// The base offset, which the checksum does not cover.
		binary.BigEndian.PutUint64(batch, uint64(i))
		file = append(file, batch...)
	}
	require.NoError(t, os.WriteFile("00000000000000000000.log", file, 0o644))
	require.NotContains(t, strataRun(t, "dump", "-v", "00000000000000000000.log").out, "PrepareCommit", "the directory has another name")
	r := strataRun(t, "dump", "-v", "--decode", "transactions", "00000000000000000000.log")
	require.Equal(t, exitOK, r.code, r.err)
	const both = `"state":"PrepareCommit","producerId":7,"producerEpoch":3,"timeoutMs":60000,"partitions":["orders-2","__consumer_offsets-9"],"startMs":11,"updateMs":12,`
	require.Contains(t, r.out, `{"kind":"transaction","transactionalId":"old",`+both+`"version":0}`)
	require.Contains(t, r.out, `{"kind":"transaction","transactionalId":"new",`+both+
		`"version":1,"previousProducerId":6,"nextProducerId":8,"clientTransactionVersion":2,"lastProducerEpoch":2}`)
	require.Contains(t, r.out, `{"kind":"transaction","transactionalId":"gone","tombstone":true}`)
}

// Kafka's records, and kinds that Kafka's file lacks.
func TestDumpDecodesWhatIsStoredOfShareGroups(t *testing.T) {
	kafkas, err := os.ReadFile("../../internal/sharelog/testdata/__share_group_state-2.log")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("__share_group_state-2", 0o755))
	require.NoError(t, os.WriteFile("__share_group_state-2/00000000000000000000.log", kafkas, 0o644))
	r := strataRun(t, "dump", "-v", "__share_group_state-2")
	require.Equal(t, exitOK, r.code, r.err)
	golden(t, "shares.txt", r.out)

	var b record.Builder
	key := sharelog.Key{Group: "g", TopicID: [16]byte{1}, Partition: 3}
	b.AppendKV(1000, sharelog.AppendKey(nil, key, false), nil, nil)
	odd := sharelog.Value{LeaderEpoch: -1, Start: -1, Complete: -1, Batches: []sharelog.Batch{{First: 1, Last: 2, State: 9, Count: 4}}}
	b.AppendKV(1000, sharelog.AppendKey(nil, key, true), odd.AppendTo(nil, true), nil)
	b.AppendKV(1000, sharelog.AppendKey(nil, key, true), []byte("x"), nil)
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("00000000000000000000.log", batch, 0o644))
	r = strataRun(t, "dump", "-v", "--decode", "shares", "00000000000000000000.log")
	require.Equal(t, exitOK, r.code, r.err)
	const what = `"group":"g","topicId":"AQAAAAAAAAAAAAAAAAAAAA","partition":3,`
	require.Contains(t, r.out, `{"kind":"shareSnapshot",`+what+`"tombstone":true}`)
	require.Contains(t, r.out, `{"kind":"shareUpdate",`+what+`"snapshotEpoch":0,"leaderEpoch":-1,"startOffset":-1,`+
		`"batches":[{"firstOffset":1,"lastOffset":2,"deliveryState":"unknown","deliveryCount":4}]}`)
	require.Contains(t, r.out, `{"kind":"share","error":`)
}

func TestDumpOfEveryFileIsJSONByTheLine(t *testing.T) {
	inKafkaDirectory(t)
	var files []string
	for _, name := range glob(t, "log/*/*") {
		if filepath.Base(name) != "quorum-state" {
			files = append(files, name)
		}
	}
	r := strataRun(t, append([]string{"dump", "-v", "--json"}, files...)...)
	require.Equal(t, exitOK, r.code, r.err)
	records := 0
	for line := range strings.Lines(r.out) {
		var v struct{ Type, File string }
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		require.NotEmpty(t, v.Type)
		require.Contains(t, files, v.File)
		if v.Type == "record" {
			records++
		}
	}
	require.Greater(t, records, 2000)
}

func TestDumpBounds(t *testing.T) {
	inKafkaDirectory(t)
	file := "log/codec-none-0/00000000000000000000.log"
	all := strataRun(t, "dump", file).out
	some := strataRun(t, "dump", file, "--from", "100", "--max-batches", "2").out
	require.Equal(t, 3, strings.Count(some, "\n"))
	require.Greater(t, strings.Count(all, "\n"), 10)
	for _, line := range strings.Split(some, "\n")[1:] {
		require.Contains(t, all, line)
	}
}

func TestDumpOfStratasOwnFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
	require.NoError(t, c.Close())
	r := strataRun(t, "dump", "data/broker-1/meta.properties", "data/broker-1/__cluster_metadata-0/strata.state")
	require.Equal(t, exitOK, r.code, r.out)
	require.Contains(t, r.out, "writtenBy strata, version 1, clusterId ")
	require.Contains(t, r.out, "clean true, emptied false, syncOnAck true, startOffset 0")
	r = strataRun(t, append([]string{"dump", "-v"}, glob(t, "data/broker-1/__cluster_metadata-0/*.log")...)...)
	require.Contains(t, r.out, `{"kind":"FeatureLevelRecord","name":"metadata.version","level":29}`)
	flip(t, "data/broker-1/meta.properties", 60)
	r = strataRun(t, "dump", "data/broker-1/meta.properties")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "DAMAGE: damaged: checksum")
}

func TestDumpPrintsDamageAndGoesOn(t *testing.T) {
	inKafkaDirectory(t)
	file := "log/transactions-0/00000000000000000010.log"
	flip(t, file, 100)
	r := strataRun(t, "dump", file, "log/transactions-0/leader-epoch-checkpoint")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "DAMAGE at 78, 559 bytes")
	require.Contains(t, r.out, "  21..21 at 637")
	require.Contains(t, r.out, "leaderEpoch 0, startOffset 0")
	p, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(p, make([]byte, 4096)...), 0o644))
	require.Contains(t, strataRun(t, "dump", file).out, "4096 zero bytes from 9906 on: preallocated space")
}

func TestMisuse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"dump"}, {"nothing"}, {"dump", "--nothing", "x.log"}, {"dump", "README.md"}, {"dump", "--decode", "x", "x.log"},
		{"verify"}, {"verify", "a", "b"}, {"verify", "missing"}, {"verify", "."}, {"dump", "x.index"},
	} {
		r := strataRun(t, args...)
		if len(args) == 2 && args[1] == "x.index" {
			require.Equal(t, exitFailed, r.code)
			continue
		}
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.out)
		require.Contains(t, r.err, "strata: ", "%v", args)
	}
}

func TestEveryCommandsHelpShowsExamples(t *testing.T) {
	a := &app{}
	for _, c := range a.root().Commands() {
		leaves := c.Commands()
		if len(leaves) == 0 {
			leaves = append(leaves, c)
		}
		for _, leaf := range leaves {
			require.Contains(t, leaf.Example, leaf.CommandPath(), leaf.CommandPath())
			require.NotEmpty(t, leaf.Long, leaf.CommandPath())
		}
	}
	r := strataRun(t, "dump", "--help")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.out, "Examples:")
}
