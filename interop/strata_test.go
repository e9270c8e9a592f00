package interop

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

// TestStrata runs the checks against our server, on files.
func TestStrata(t *testing.T) {
	k, _ := startStrata(t)
	runAll(t, k)
}

// startStrata serves a new directory until the end of the test, or until stop is called. A request that failed for a reason nobody foresaw fails the test.
func startStrata(t *testing.T) (k target, stop func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	cluster, err := strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	var errs syncBuffer
	s := kafka.NewServer(cluster, kafka.Config{Logger: slog.New(slog.NewTextHandler(&errs, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(cluster.Controller(), ln) }()
	closed := false
	stop = func() {
		if closed {
			return
		}
		closed = true
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
		require.NoError(t, cluster.Close())
		for line := range bytes.Lines(errs.bytes()) {
			if bytes.Contains(line, []byte("level=ERROR")) {
				t.Errorf("the server says: %s", line)
			} else if os.Getenv("STRATA_INTEROP_LOG") != "" {
				t.Logf("%s", line)
			}
		}
	}
	t.Cleanup(stop)
	return target{kind: "strata", addr: ln.Addr().String(), dir: dir}, stop
}
