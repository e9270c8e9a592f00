package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/topic"
)

// The program that uses the directory runs the code that the error shows, and the command reaches
// its cluster.
func TestDirectoryInUseShowsHowToReachItsCluster(t *testing.T) {
	dir := t.TempDir()
	cluster, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	defer cluster.Close()
	require.NoError(t, cluster.CreateTopic(t.Context(), "orders", topic.Config{}))
	r := strataRun(t, "topics", "list", "--dir", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "directory is in use")
	require.Contains(t, r.err, "-b HOST:PORT instead of --dir")
	var lines []string
	for line := range strings.Lines(r.err) {
		if strings.HasPrefix(line, "      ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	require.Len(t, lines, 4, r.err)
	code, err := os.ReadFile("target_in_use_test.go")
	require.NoError(t, err)
	for _, line := range lines {
		line, _, _ = strings.Cut(strings.Replace(line, ":9092", ":0", 1), " //")
		require.Contains(t, string(code), line)
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := kafka.NewServer(cluster, kafka.Config{})
	go server.Serve(cluster.Backend().Controller(), ln)
	defer server.Close()
	r = strataRun(t, "topics", "list", "-b", ln.Addr().String())
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "orders: 1 partitions")
}
