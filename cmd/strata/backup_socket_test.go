package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
)

// produceUntil sends numbers to "orders" one by one until ctx ends, and returns the number of
// acknowledged ones. first is closed after the first acknowledgement.
func produceUntil(ctx context.Context, t *testing.T, c *kgo.Client, first chan<- struct{}) (confirmed int) {
	for ctx.Err() == nil {
		if err := c.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte(strconv.Itoa(confirmed))}).FirstErr(); err != nil {
			t.Error(err)
			break
		}
		if confirmed++; confirmed == 1 {
			close(first)
		}
	}
	return confirmed
}

// readOrders returns the number of records of "orders" in the cluster in dir; their values are 0,
// 1 and so on.
func readOrders(t *testing.T, dir string) (n int) {
	t.Helper()
	c, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "orders"}) {
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(n), string(r.Value))
		n++
	}
	return n
}

func TestBackupOfAServedClusterWhileAProducerWrites(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, "--dir", "data", "--set", "num.partitions=1")
	c := client(t, p.addr)
	ctx, stop := context.WithCancel(t.Context())
	first := make(chan struct{})
	var producing sync.WaitGroup
	confirmed := 0
	producing.Go(func() { confirmed = produceUntil(ctx, t, c, first) })
	<-first
	for _, to := range []string{"monday", "tuesday"} {
		r := strataRun(t, "backup", "data", to)
		require.Equal(t, exitOK, r.code, r.err)
		require.Equal(t, "backup: data copied to "+to+"\n", r.out)
	}
	stop()
	producing.Wait()
	c.Close()
	r := strataRun(t, "backup", "data", "monday")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "not empty")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Empty(t, p.errs.String())
	require.NoDirExists(t, filepath.Dir(backupSocketPath("data")))

	for _, dir := range []string{"monday", "tuesday"} {
		require.Equal(t, exitOK, strataRun(t, "verify", dir).code)
	}
	monday, tuesday := readOrders(t, "monday"), readOrders(t, "tuesday")
	require.Positive(t, monday)
	require.LessOrEqual(t, monday, tuesday)
	require.Equal(t, confirmed, readOrders(t, "data"))
}

func TestBackupFindsTheNextServerAfterOneWasKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, "--dir", "data")
	// A new cluster without an acknowledged record may not exist yet when it is killed.
	require.NoError(t, client(t, p.addr).ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	info, err := os.Stat(filepath.Dir(backupSocketPath("data")))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "nobody else gets at the socket")
	r := strataRun(t, "verify", "data")
	require.Equal(t, exitOK, r.code, r.out+r.err)
	require.Equal(t, exitOK, strataRun(t, "backup", "data", "stopped").code, "nobody serves it")

	p = start(t, "--dir", "data")
	require.Equal(t, exitOK, strataRun(t, "backup", "data", "served").code)
	silent, err := net.Dial("unix", backupSocketPath("data")) // does not delay the shutdown
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Equal(t, exitOK, strataRun(t, "restore", "served", "restored").code)
}

// A socket path that is too long for the system does not prevent the server's start.
func TestServeWithoutABackupSocketSaysSo(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := strings.Repeat("d", 200)
	p := start(t, "--dir", dir)
	require.Contains(t, p.ready, "ready")
	r := strataRun(t, "backup", dir, "copy")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "in use")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Contains(t, p.errs.String(), "no backups while this cluster is served")
}
