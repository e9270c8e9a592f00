package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
)

// ordersIn makes a cluster in a new directory with the topic orders, a partition for each list.
func ordersIn(t *testing.T, parts ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir, "--set", fmt.Sprint("num.partitions=", len(parts)))
	for i, values := range parts {
		args := append([]string{"produce", "orders", "--partition", fmt.Sprint(i), "-b", p.addr}, strings.Fields(values)...)
		require.Equal(t, exitOK, strataRun(t, args...).code)
	}
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait(t))
	return dir
}

func TestMirrorDrainsADirectoryIntoACluster(t *testing.T) {
	dir := ordersIn(t, "a b c", "d e")
	s := kafkatest.New(t, kafkatest.Config{})
	args := []string{"mirror", "orders", "--id", "m", "--dir", dir, "--to", s.Addrs()[0], "--prefix", "edge.", "--drain"}
	r := strataRun(t, args...)
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, "m: 5 records forwarded in 2 transactions, 5 bytes\n", r.out)
	require.Empty(t, r.err)
	require.Equal(t, exitOK, strataRun(t, args...).code)
	require.Len(t, s.WaitRecords("edge.orders", 5), 5, "the second command had nothing to do")

	r = strataRun(t, append(args, "--json")...)
	require.Equal(t, exitOK, r.code, r.err)
	require.JSONEq(t, `{"type":"mirror","id":"m","records":0,"bytes":0,"transactions":1}`, r.out)
	require.Contains(t, strataRun(t, "groups", "describe", "strata-mirror-m", "--dir", dir).out, "orders-0: committed 3 of 3, lag 0")
}

func TestMirrorRunsUntilItIsInterrupted(t *testing.T) {
	b := serveOrders(t, "a b c")
	s := kafkatest.New(t, kafkatest.Config{})
	config := filepath.Join(t.TempDir(), "to.conf")
	require.NoError(t, os.WriteFile(config, []byte("bootstrap = "+s.Addrs()[0]+"\n"), 0o600))
	f := follow(t, append([]string{"mirror", "orders", "--id", "m", "--to-config", config}, b...)...)
	s.WaitRecords("orders", 3)
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "orders", "d"}, b...)...).code)
	s.WaitRecords("orders", 4)
	rest, err := f.signalled(os.Interrupt)
	require.NoError(t, err, f.stderr())
	require.Contains(t, rest, "m: 4 records forwarded")
}

func TestMirrorThatCannotContinueFails(t *testing.T) {
	b := serveOrders(t, "a b c")
	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 1, "other": 2}})
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "x", "-b", s.Addrs()[0]).code)
	run := func(args ...string) result {
		return strataRun(t, append(append([]string{"mirror", "--id", "m", "--to", s.Addrs()[0], "--drain"}, args...), b...)...)
	}
	r := run("orders")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, mirror.ErrNoPosition.Error())
	require.Equal(t, exitOK, run("orders", "--start", "latest").code)
	require.Len(t, s.Topic("orders"), 1)
	require.Equal(t, exitFailed, run("nope").code)
	require.Equal(t, exitFailed, strataRun(t, append([]string{"mirror", "orders", "--id", "m", "--to", "127.0.0.1:1", "--timeout", "300ms"}, b...)...).code)
	for _, args := range [][]string{
		{"orders", "--start", "5"}, {"orders", "--records-per-second", "-1"}, {"orders", "orders"}, {"orders", "--prefix", "a/"},
	} {
		require.Equal(t, exitMisuse, run(args...).code, args)
	}
	require.Equal(t, exitMisuse, strataRun(t, append([]string{"mirror", "orders", "--to", "x:1"}, b...)...).code, "without --id")
	require.Equal(t, exitMisuse, strataRun(t, append([]string{"mirror", "orders", "--id", "m"}, b...)...).code, "without --to")
	require.Equal(t, exitMisuse, strataRun(t, append([]string{"mirror", "orders", "--id", "m", "--to", b[1]}, b...)...).code, "to itself")
}

func TestMirrorMovesGroups(t *testing.T) {
	b := serveOrders(t, "a b c d")
	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	require.Equal(t, exitOK, strataRun(t, append([]string{"groups", "reset", "billing", "--topic", "orders", "--to", "3"}, b...)...).code)
	args := append([]string{"mirror", "orders", "--id", "m", "--to", s.Addrs()[0], "--cutover", "billing"}, b...)
	r := strataRun(t, args...)
	require.Equal(t, exitOK, r.code, r.err)
	require.Equal(t, "billing: orders-0 is at 3\nm: 4 records forwarded in 2 transactions, 4 bytes\n", r.out)
	require.Equal(t, "d\n", strataRun(t, "consume", "orders", "--group", "billing", "--max", "1", "--values", "-b", s.Addrs()[0]).out)
	r = strataRun(t, args...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, mirror.ErrGroupHasOffsets.Error(), "the group has gone on at the target")
}

func TestMirrorNamesOffsetsOfGroupsThatItDoesNotMove(t *testing.T) {
	b := serveOrders(t, "a b c d")
	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	require.Equal(t, exitOK, strataRun(t, append([]string{"topics", "create", "bills", "--partitions", "1"}, b...)...).code)
	for _, topic := range []string{"orders", "bills"} {
		require.Equal(t, exitOK, strataRun(t, append([]string{"groups", "reset", "billing", "--topic", topic, "--to", "earliest"}, b...)...).code)
	}
	r := strataRun(t, append([]string{"mirror", "orders", "--id", "m", "--to", s.Addrs()[0], "--cutover", "billing"}, b...)...)
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "billing: orders-0 is at 0\nbilling: bills-0 is not moved from 0: the topic is not forwarded\n")
}

func TestProgressOfAMirrorNamesItsLag(t *testing.T) {
	for want, st := range map[string]mirror.Stats{
		"7 records forwarded":                                     {Records: 7, Lag: -1},
		"7 records forwarded, nothing to go":                      {Records: 7, Connected: time.Now(), LastError: errSilent},
		"7 records forwarded, 3 to go":                            {Records: 7, Lag: 3},
		"7 records forwarded, 3 to go, the oldest from 1m30s ago": {Records: 7, Lag: 3, LagTime: 90 * time.Second},
		"7 records forwarded, 3 to go; trying again":              {Records: 7, Lag: 3, LastError: errSilent},
	} {
		require.Equal(t, want, progressOf(st))
	}
}
