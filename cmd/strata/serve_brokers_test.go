package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokersOf returns the addresses and racks of the brokers, as an administrator sees them.
func brokersOf(t *testing.T, addr string) (addrs, racks []string) {
	t.Helper()
	md, err := kadm.NewClient(client(t, addr)).BrokerMetadata(t.Context())
	require.NoError(t, err)
	for i, b := range md.Brokers {
		require.EqualValues(t, i+1, b.NodeID)
		addrs = append(addrs, net.JoinHostPort(b.Host, fmt.Sprint(b.Port)))
		if b.Rack != nil {
			racks = append(racks, *b.Rack)
		}
	}
	return addrs, racks
}

// stopped stops a server with SIGTERM, and requires an orderly end.
func (p *process) stopped(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t), p.errs.String())
}

func addressesOf(t *testing.T, p *process) []string {
	t.Helper()
	return strings.Split(strings.TrimPrefix(strings.TrimSpace(p.ready), "ready "), ",")
}

// Each of three brokers keeps its partitions in its own directory, also after a restart without
// --brokers.
func TestServeSeveralBrokersEachInItsDirectory(t *testing.T) {
	dir, apart := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "disk-2")
	p := start(t, "--dir", dir, "--brokers", "3", "--rack", "a,b,a", "--broker-dir", "2="+apart, "--set", "num.partitions=6")
	require.Regexp(t, `^ready 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\n$`, p.ready)
	addrs, racks := brokersOf(t, p.addr)
	require.Equal(t, addressesOf(t, p), addrs)
	require.Equal(t, []string{"a", "b", "a"}, racks)
	c := client(t, addrs[1], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for part := range int32(6) {
		require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: part, Value: []byte("one")}).FirstErr())
	}
	p.stopped(t)
	for _, home := range []string{filepath.Join(dir, "broker-1"), apart, filepath.Join(dir, "broker-3")} {
		mine, err := filepath.Glob(filepath.Join(home, "orders-*"))
		require.NoError(t, err)
		require.Len(t, mine, 2, home)
	}

	p = start(t, "--dir", dir, "--broker-dir", "2="+apart)
	require.Len(t, addressesOf(t, p), 3)
	c = client(t, addressesOf(t, p)[2], kgo.ConsumeTopics("orders"))
	for seen := map[int32]bool{}; len(seen) < 6; {
		fs := c.PollFetches(t.Context())
		require.NoError(t, fs.Err())
		for _, r := range fs.Records() {
			seen[r.Partition] = true
		}
	}
	p.stopped(t)
	r := strataRun(t, "topics", "--dir", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitMisuse, r.code)
}

// Other commands read a directory of several brokers like a directory of one.
func TestCommandsReadADirectoryOfSeveralBrokers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir, "--brokers", "2", "--set", "num.partitions=2")
	c := client(t, p.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for part := range int32(2) {
		require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: part, Value: fmt.Append(nil, "in ", part)}).FirstErr())
	}
	p.stopped(t)
	r := strataRun(t, "consume", "orders", "--dir", dir)
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "in 0")
	require.Contains(t, r.out, "in 1")
}

// If a broker's directory is missing, its partitions and its address are unavailable. The other
// brokers are not affected.
func TestServeGoesOnWithoutABrokersDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir, "--brokers", "3")
	p.stopped(t)
	require.NoError(t, os.Rename(filepath.Join(dir, "broker-2"), filepath.Join(t.TempDir(), "away")))
	for _, args := range [][]string{{"--brokers", "3"}, nil} {
		p = start(t, append([]string{"--dir", dir}, args...)...)
		md, err := kadm.NewClient(client(t, p.addr)).BrokerMetadata(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int32{1, 3}, md.Brokers.NodeIDs())
		require.Len(t, addressesOf(t, p), 2)
		p.stopped(t)
		if args != nil {
			require.Contains(t, p.errs.String(), "broker=2")
		}
	}
}

// Broker n has the n-th port or address, even if brokers before it are missing.
func TestBrokersListenOnThePortsThatFollow(t *testing.T) {
	ports := map[int32]int{}
	for _, id := range []int32{1, 3} {
		_, port, err := addressList{"listen", []string{"localhost:9092"}, 3}.of(id)
		require.NoError(t, err)
		ports[id] = port
		host, port, err := addressList{"listen", []string{"a:1", "b:1", "c:7"}, 3}.of(id)
		require.NoError(t, err)
		require.Equal(t, map[int32]string{1: "a:1", 3: "c:7"}[id], fmt.Sprint(host, ":", port))
		_, port, err = addressList{"listen", []string{"localhost:0"}, 3}.of(id)
		require.NoError(t, err)
		require.Zero(t, port, "any")
	}
	require.Equal(t, map[int32]int{1: 9092, 3: 9094}, ports)
}

func TestEachBrokerIsToldOfWhereItIsAdvertised(t *testing.T) {
	p := start(t, "--memory", "--brokers", "2", "--advertise", "example.invalid:19092")
	require.Regexp(t, `^ready example.invalid:19092,example.invalid:19093 listening on 127\S+,127\S+\n$`, p.ready)
	p = start(t, "--memory", "--brokers", "2", "--advertise", "a.invalid:1,b.invalid:1")
	require.Regexp(t, `^ready a.invalid:1,b.invalid:1 listening on 127`, p.ready)
}

func TestServeMisuseOfBrokers(t *testing.T) {
	for _, args := range [][]string{
		{"--brokers", "-1"}, {"--brokers", "3", "--rack", "a,b"}, {"--rack", "a,b"}, {"--brokers", "2", "--listen", "127.0.0.1:65535"},
		{"--brokers", "3", "--listen", "127.0.0.1:0,127.0.0.1:0"}, {"--brokers", "3", "--advertise", "a:1,b:1"}, {"--brokers", "2", "--advertise", "a:0"},
		{"--brokers", "2", "--broker-dir", "2=x"}, {"--listen", "127.0.0.1"}, {"--listen", "127.0.0.1:x"},
	} {
		r := strataRun(t, append([]string{"serve", "--memory"}, args...)...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
		require.Empty(t, r.out)
	}
	dir := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"--broker-dir", "x"}, {"--broker-dir", "0=x"}, {"--broker-dir", "1="}, {"--brokers", "2", "--broker-dir", "3=x"}, {"--broker-dir", "1=x", "--broker-dir", "1=y"},
	} {
		r := strataRun(t, append([]string{"serve", "--dir", dir}, args...)...)
		require.Equal(t, exitMisuse, r.code, "%v: %s", args, r.err)
		require.NoDirExists(t, dir)
	}
}
