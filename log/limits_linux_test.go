package log_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/stratalog/strata/log"
)

const fewFilesEnv = "STRATA_TEST_FEW_FILES"

// TestManyLogsWithFewDescriptors has a process with 256 descriptors open 260 logs (1,000 with
// STRATA_EXPLORE) and append to them. Under SyncOnAck every append succeeds. Under SyncNever a log
// keeps its descriptor from a write until its sync, so some appends fail with the system's error.
// All acknowledged records are there, and the directory still works.
func TestManyLogsWithFewDescriptors(t *testing.T) {
	if root := os.Getenv(fewFilesEnv); root != "" {
		limit := unix.Rlimit{Cur: 256, Max: 256}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		require.Zero(t, manyLogs(t, filepath.Join(root, "durable"), log.SyncOnAck), "appends were refused")
		require.Positive(t, manyLogs(t, filepath.Join(root, "never"), log.SyncNever), "the limit was not reached")
		return
	}
	if testing.Short() {
		t.Skip("1,000 logs on disk")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestManyLogsWithFewDescriptors$", "-test.v")
	cmd.Env = append(os.Environ(), fewFilesEnv+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS")
}

// manyLogs returns the number of refused appends.
func manyLogs(t *testing.T, root string, policy log.SyncPolicy) (refused int) {
	count := 260
	if os.Getenv(exploreEnv) != "" {
		count = 1000
	}
	cfg := log.DirectoryConfig{MaxOpenFiles: 32}
	dir, err := log.OpenDirectory(root, cfg)
	require.NoError(t, err)
	logs, acked := make([]*log.Log, count), make([][]int64, count)
	for i := range logs {
		logs[i], err = log.Open(filepath.Join(root, fmt.Sprintf("t-%d", i)), log.Config{Dir: dir, Sync: policy})
		require.NoError(t, err, "log %d", i)
	}
	for id := range int64(2) {
		for i, l := range logs {
			if _, err := appendID(l, id); err != nil {
				require.ErrorIs(t, err, syscall.EMFILE)
				refused++
				continue
			}
			acked[i] = append(acked[i], id)
		}
	}
	for i, l := range logs {
		if err := l.Close(); err != nil {
			require.ErrorIs(t, err, syscall.EMFILE, "log %d", i)
		}
	}
	require.NoError(t, dir.Close())
	t.Logf("%d of %d appends refused", refused, 2*count)
	dir, err = log.OpenDirectory(root, cfg)
	require.NoError(t, err)
	for i := range logs {
		l, err := log.Open(filepath.Join(root, fmt.Sprintf("t-%d", i)), log.Config{Dir: dir, Sync: policy})
		require.NoError(t, err, "log %d", i)
		f, err := readLog(l)
		require.NoError(t, err, "log %d", i)
		require.Equal(t, acked[i], f.ids, "log %d", i)
		_, err = appendID(l, 2)
		require.NoError(t, err, "log %d", i)
		require.NoError(t, l.Close())
	}
	require.NoError(t, dir.Close())
	return refused
}
