package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

func TestConsumeReportsTheErrorOfADamagedPartition(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "a", "b", "-b", p.addr).code)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	flip(t, filepath.Join(dir, "broker-1", "orders-0", "00000000000000000000.log"), 70)
	p = start(t, "--dir", dir)
	r := strataRun(t, "consume", "orders", "--timeout", "300ms", "-b", p.addr)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "strata: no records for 300ms; orders-0: KAFKA_STORAGE_ERROR")
	f := follow(t, "consume", "orders", "--follow", "-b", p.addr)
	require.Eventually(t, func() bool { return f.stderr() != "" }, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, f.stderr(), "strata: orders-0: KAFKA_STORAGE_ERROR")
	f.interrupt()
}

func TestTopicsDescribeShowsAPartitionThatHasMetDamage(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "a", "b", "-b", p.addr).code)
	require.NotContains(t, strataRun(t, "topics", "describe", "orders", "-b", p.addr).out, "KAFKA_STORAGE_ERROR")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	flip(t, filepath.Join(dir, "broker-1", "orders-0", "00000000000000000000.log"), 70)
	p = start(t, "--dir", dir)
	require.Equal(t, exitFailed, strataRun(t, "consume", "orders", "--timeout", "300ms", "-b", p.addr).code)
	r := strataRun(t, "topics", "describe", "-b", p.addr)
	require.Equal(t, exitOK, r.code, r.err)
	require.Regexp(t, `  0: offsets 0\.\.\d, leader 1 .*, KAFKA_STORAGE_ERROR.*\n .*strata verify`, r.out)
}

func TestTopicsDescribeShowsAPartitionWithoutEnoughReplicas(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Brokers: 2})
	require.Equal(t, exitOK, strataRun(t, "topics", "create", "orders", "--replication-factor", "2", "--set", "min.insync.replicas=2", "-b", s.Addrs()[0]).code)
	require.NotContains(t, strataRun(t, "topics", "describe", "orders", "-b", s.Addrs()[0]).out, "NOT_ENOUGH_REPLICAS")
	s.StopBroker(2)
	r := strataRun(t, "topics", "describe", "orders", "-b", s.Addrs()[0])
	require.Equal(t, exitOK, r.code, r.err)
	require.Regexp(t, `  0: offsets 0\.\.0, leader 1 .*, NOT_ENOUGH_REPLICAS.*\n .*min\.insync\.replicas`, r.out)
}

func TestTopicsDescribeShowsPartitionsBesideOneWithoutALeader(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Brokers: 2, Topics: map[string]int{"orders": 2}})
	s.Fill("orders", record.String("", "k", "a").To(0))
	s.StopBroker(2)
	r := strataRun(t, "topics", "describe", "orders", "-b", s.Addrs()[0])
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "  0: offsets 0..1, leader 1")
	require.Regexp(t, `  1: offsets -1\.\.-1, leader -1 .*, LEADER_NOT_AVAILABLE`, r.out)
}
