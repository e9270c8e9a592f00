package log_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

var killCycles = flag.Int("kill.cycles", 5, "how often TestKilledAgainAndAgain kills the process that writes, for each sync policy")

const (
	killEnv     = "STRATA_TEST_KILLED_LOG" // sync policy and directory
	killWriters = 4
)

// TestKilledAgainAndAgain runs this test binary again as a process that writes, with several
// appends in flight all the time, and kills it with SIGKILL. Each time the log must open and have
// every acknowledged record at its offset. It must have the records of each writer once and in
// order, and no gap between offsets.
func TestKilledAgainAndAgain(t *testing.T) {
	if env := os.Getenv(killEnv); env != "" {
		policy, dir, _ := strings.Cut(env, " ")
		writeUntilKilled(killConfig(policy), dir)
		return
	}
	for _, policy := range []string{"ack", "never", "interval"} {
		t.Run(policy, func(t *testing.T) {
			dir, acked := filepath.Join(t.TempDir(), "t-0"), map[int64]string{}
			var slowest time.Duration
			for range *killCycles {
				killed := ackedBeforeKill(t, policy+" "+dir, 50+rand.IntN(500))
				for offset, value := range killed {
					require.NotContains(t, acked, offset, "acknowledged twice")
					acked[offset] = value
				}
				began := time.Now()
				l, err := log.Open(dir, killConfig(policy))
				require.NoError(t, err)
				slowest = max(slowest, time.Since(began))
				checkKilled(t, l, acked)
				require.NoError(t, l.Close())
			}
			t.Logf("%d kills, %d records acknowledged, opened in at most %s", *killCycles, len(acked), slowest)
		})
	}
}

func killConfig(policy string) log.Config {
	cfg := log.Config{SegmentBytes: 1 << 20}
	switch policy {
	case "never":
		cfg.Sync = log.SyncNever
	case "interval":
		cfg.Sync = log.SyncInterval(5 * time.Millisecond)
	}
	return cfg
}

// writeUntilKilled appends records of several writers and prints the acknowledged ones. Each
// writer continues after its last record in the log.
func writeUntilKilled(cfg log.Config, dir string) {
	l, err := log.Open(dir, cfg)
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	var next [killWriters]int
	for r, err := range l.Records(0) {
		if err != nil {
			fmt.Println("read:", err)
			return
		}
		var w, n int
		_, _ = fmt.Sscanf(string(r.Value), "%d:%d:", &w, &n)
		next[w] = n + 1
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // lines are written whole
	for w := range killWriters {
		wg.Go(func() {
			for n := next[w]; ; n++ {
				value := fmt.Sprintf("%d:%d:%s", w, n, strings.Repeat("x", n*37%900))
				offset, err := l.Append(context.Background(), record.String("", "", value))
				mu.Lock()
				if err != nil {
					fmt.Println("append:", err)
				} else {
					fmt.Println(offset, value)
				}
				mu.Unlock()
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent exits
	os.Exit(1)
}

// ackedBeforeKill runs the process until it has acknowledged n records, kills it, and returns all
// acknowledged records.
func ackedBeforeKill(t *testing.T, env string, n int) map[int64]string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledAgainAndAgain$")
	cmd.Env = append(os.Environ(), killEnv+"="+env)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	acked := map[int64]string{}
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // killed; a partial line is not read as an acknowledgement
		}
		var offset int64
		var value string
		_, err = fmt.Sscanf(line, "%d %s", &offset, &value)
		require.NoError(t, err, line)
		acked[offset] = value
		if len(acked) == n {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	require.GreaterOrEqual(t, len(acked), n)
	return acked
}

// checkKilled reads the whole log.
func checkKilled(t *testing.T, l *log.Log, acked map[int64]string) {
	t.Helper()
	var next [killWriters]int
	offset := int64(0)
	for r, err := range l.Records(0) {
		require.NoError(t, err)
		require.Equal(t, offset, r.Offset)
		offset++
		var w, n int
		_, err = fmt.Sscanf(string(r.Value), "%d:%d:", &w, &n)
		require.NoError(t, err)
		require.Equal(t, next[w], n, "writer %d at offset %d", w, r.Offset)
		next[w]++
		if want, ok := acked[r.Offset]; ok {
			require.Equal(t, want, string(r.Value), "offset %d", r.Offset)
		}
	}
	require.Equal(t, offset, l.EndOffset())
	for o := range acked {
		require.Less(t, o, offset, "acknowledged and lost")
	}
}
