package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafka"
)

func TestServedFilesHaveAMemoryLimitUnlessTheEnvironmentHasOne(t *testing.T) {
	t.Parallel()
	const line = "memory limit of the process"
	logOf := func(env map[string]string, args ...string) string {
		p := startIn(t, env, append(args, "--listen", "127.0.0.1:0", "--log-level", "info")...)
		p.stopped(t)
		return p.errs.String()
	}
	dir := filepath.Join(t.TempDir(), "data")
	plain := map[string]string{asProgram: "1"}
	require.Contains(t, logOf(plain, "--dir", dir), fmt.Sprintf("%q bytes=%d", line, kafka.Limits{}.MemoryBytes()-memoryBeside))
	require.NotContains(t, logOf(map[string]string{asProgram: "1", "GOMEMLIMIT": "2GiB"}, "--dir", dir), line)
	require.NotContains(t, logOf(plain, "--memory"), line)
}
