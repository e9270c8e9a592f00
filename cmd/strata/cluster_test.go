package main

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/vfs"
)

func TestClusterCommandFailsWhileADiskIsFull(t *testing.T) {
	disk := vfs.Mem()
	cluster, err := strata.Open(strata.Config{Dir: "data", FS: disk})
	require.NoError(t, err)
	defer cluster.Close()
	require.NoError(t, cluster.Healthy(t.Context())) // the directory is created
	disk.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpCreate, Err: syscall.ENOSPC, Times: vfs.Always})
	require.Eventually(t, func() bool { return cluster.Healthy(t.Context()) != nil }, 10e9, 10e6)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := kafka.NewServer(cluster, kafka.Config{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(cluster.Backend().Controller(), ln) }()
	defer func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
	}()
	r := strataRun(t, "cluster", "-b", ln.Addr().String())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "broker 1: its disk fails or is full: KAFKA_STORAGE_ERROR")
	require.Contains(t, r.out, "broker 1 at ")
	r = strataRun(t, "cluster", "-b", ln.Addr().String(), "--json")
	require.Contains(t, r.out, `"error":"KAFKA_STORAGE_ERROR`)
}
