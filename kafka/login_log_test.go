package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/loglimit"
)

func TestFailedLoginsAreWarnedOfSoManyAMinute(t *testing.T) {
	var l loglimit.Limit
	now := time.Unix(1000, 0)
	count := func(n int) (warned, skipped int) {
		for range n {
			level, out := l.Next(now, slog.LevelWarn)
			if level == slog.LevelWarn {
				warned++
			}
			skipped += out
		}
		return warned, skipped
	}
	warned, skipped := count(5000)
	require.Equal(t, []int{loglimit.Lines, 0}, []int{warned, skipped})
	now = now.Add(59 * time.Second)
	warned, _ = count(1)
	require.Zero(t, warned)
	now = now.Add(time.Second)
	warned, skipped = count(1)
	require.Equal(t, []int{1, 5001 - loglimit.Lines}, []int{warned, skipped})
	warned, skipped = count(1)
	require.Equal(t, []int{1, 0}, []int{warned, skipped})
}

// A wrong password is logged at the level that a server logs by default. Guesses do not fill the
// disk.
func TestFailedLoginsAreWarningsOfTheServer(t *testing.T) {
	var mu sync.Mutex
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelWarn}))
	n := newSASLNetwork(t, Config{Logger: logger}, nil)
	for range 3 * loglimit.Lines {
		require.NotZero(t, asPlain(n.dial(), "alice", "wrong").ErrorCode)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, loglimit.Lines, strings.Count(logged.String(), `level=WARN msg="authentication failed" remote=`), logged.String())
	require.Equal(t, loglimit.Lines, strings.Count(logged.String(), "mechanism=PLAIN"))
}
