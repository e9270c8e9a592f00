package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBareCommandListsTheCommands(t *testing.T) {
	r := command(t, "")
	require.Equal(t, exitOK, r.code)
	for _, name := range []string{"serve", "topics", "groups", "produce", "consume", "dump", "verify", "backup", "completion"} {
		require.Regexp(t, `(?m)^  `+name+` `, r.out)
	}
	require.Empty(t, r.err)
	r = command(t, "", "groups")
	require.Equal(t, exitMisuse, r.code)
	require.Contains(t, r.err, "strata groups needs a subcommand: ")
	require.Regexp(t, `^strata version \S+\n$`, command(t, "", "--version").out)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, command(t, "", "completion", shell).out, "strata", shell)
	}
}

func TestErrorsSayEachThingOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	for _, args := range [][]string{{"serve", "--dir", dir}, {"topics", "list", "--dir", dir}} {
		r := command(t, "", args...)
		require.Equal(t, exitFailed, r.code)
		for _, once := range []string{"strata: ", "in use", dir, "replication: "} {
			require.Equal(t, 1, strings.Count(r.err, once), "%q in %s", once, r.err)
		}
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
}

func TestTargetOfTheEnvironment(t *testing.T) {
	r := strataRun(t, "topics", "list")
	require.Equal(t, exitMisuse, r.code)
	require.Contains(t, r.err, "no cluster given")
	p := start(t, "--memory")
	t.Setenv(bootstrapEnv, p.addr)
	require.Equal(t, exitOK, strataRun(t, "topics", "create", "orders").code)
	require.Contains(t, strataRun(t, "topics", "list").out, "orders: ")
	// A flag overrides the environment.
	r = strataRun(t, "topics", "list", "-b", "127.0.0.1:1", "--timeout", "1s")
	require.Contains(t, r.err, "no broker answers at 127.0.0.1:1")
}

func TestDumpOfADirectoryIsThatOfItsFiles(t *testing.T) {
	inKafkaDirectory(t)
	all := strataRun(t, "dump", "log")
	require.Equal(t, exitOK, all.code, all.err)
	logs, err := filepath.Glob("log/*/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, name := range logs {
		require.Contains(t, all.out, strataRun(t, "dump", name).out)
	}
	require.Contains(t, all.out, "log/meta.properties: ")
	r := strataRun(t, "dump", t.TempDir())
	require.Equal(t, exitMisuse, r.code)
	require.Contains(t, r.err, "the directory has no files of a log directory")
}

func TestClusterShowsBrokersAndWhatTheyHave(t *testing.T) {
	p := start(t, "--memory", "--brokers", "2", "--rack", "a,b")
	addr := strings.Fields(p.ready)[1]
	require.Equal(t, exitOK, strataRun(t, "topics", "create", "orders", "--partitions", "4", "-b", addr).code)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "x", "-b", addr).code)
	r := command(t, "", "cluster", "-b", addr)
	require.Equal(t, exitOK, r.code, r.err)
	addrs := strings.Split(addr, ",")
	require.Regexp(t, `^cluster \S{22}: 2 brokers, 1 topics\n`, r.out)
	require.Regexp(t, `  broker 1 at `+addrs[0]+`: leads 2 of 2 partitions, \d+ bytes, rack a`, r.out)
	require.Regexp(t, `  broker 2 at `+addrs[1]+`: leads 2 of 2 partitions, \d+ bytes, rack b`, r.out)
	require.Equal(t, 1, strings.Count(r.out, ", controller"))
	require.Regexp(t, `  feature transaction.version: \d+`, r.out)
}

func TestOffsetsAndDeletedRecordsOfATopic(t *testing.T) {
	b := serveOrders(t, "x y", "a b c d")
	run := func(args ...string) result { return command(t, "", append(args, b...)...) }
	require.Equal(t, "orders-0@2\norders-1@4\n", run("topics", "offsets", "orders").out)
	require.Equal(t, "orders-0@0\norders-1@0\n", run("topics", "offsets", "orders", "--at", "2020-01-01T00:00:00Z").out)
	require.Equal(t, "orders-0@2\norders-1@4\n", run("topics", "offsets", "orders", "--at", "2999-01-01T00:00:00Z").out)
	require.Equal(t, result{exitOK, "orders-1@3\n", ""}, run("topics", "delete-records", "orders", "--before", "3", "--partition", "1"))
	require.Equal(t, "orders-0@0\norders-1@3\n", run("topics", "offsets", "orders", "--at", "earliest").out)
	require.Equal(t, result{exitOK, "d\n", "strata: orders-1 begins at 3: earlier records are deleted\n"},
		run("consume", "orders", "--partition", "1", "--from", "1", "--values"))
	r := run("topics", "delete-records", "orders", "--before", "4")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "orders-1@4\n", r.out) // the other partition's records are deleted
	require.Contains(t, r.err, "orders-0, before 4: OFFSET_OUT_OF_RANGE")
	require.Equal(t, exitMisuse, run("topics", "delete-records", "orders").code)
	for _, args := range [][]string{
		{"topics", "delete-records", "orders", "--before"}, {"topics", "offsets", "orders", "--at"},
		{"consume", "orders", "--from"}, {"consume", "orders", "--to"}, {"consume", "orders", "--group", "g", "--max", "1", "--from"},
	} {
		// -1 ms: on the wire this value means the end.
		r := run(append(args, "1969-12-31T23:59:59.999Z")...)
		require.Equal(t, exitMisuse, r.code, args)
		require.Contains(t, r.err, "before 1970")
		require.Empty(t, r.out)
	}
	require.Equal(t, "orders-0@0\norders-1@4\n", run("topics", "offsets", "orders", "--at", "earliest").out)
	require.Equal(t, exitFailed, run("topics", "delete-records", "orders", "--before", "1", "--partition", "7").code)
}

func TestDescribeAllTopics(t *testing.T) {
	p := start(t, "--memory")
	require.Equal(t, result{}, strataRun(t, "topics", "describe", "-b", p.addr))
	require.Equal(t, exitOK, strataRun(t, "topics", "create", "a", "b", "--partitions", "1", "-b", p.addr).code)
	r := strataRun(t, "topics", "describe", "-b", p.addr)
	require.Regexp(t, `(?s)^a: 1 partitions.*\nb: 1 partitions`, r.out)
}
