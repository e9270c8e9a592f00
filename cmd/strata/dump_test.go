package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
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
	require.Contains(t, strataRun(t, "dump", file).out, "4096 zeros from 9906 on: reserved space")
}

func TestMisuse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{}, {"dump"}, {"nothing"}, {"dump", "--nothing", "x.log"}, {"dump", "README.md"}, {"dump", "--decode", "x", "x.log"},
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
