package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailedLoginsAreWarnedOfSoManyAMinute(t *testing.T) {
	var l loginLog
	now := time.Unix(1000, 0)
	count := func(n int) (warned, skipped int) {
		for range n {
			level, out := l.next(now)
			if level == slog.LevelWarn {
				warned++
			}
			skipped += out
		}
		return warned, skipped
	}
	warned, skipped := count(5000)
	require.Equal(t, []int{loginsLogged, 0}, []int{warned, skipped})
	now = now.Add(59 * time.Second)
	warned, _ = count(1)
	require.Zero(t, warned)
	now = now.Add(time.Second)
	warned, skipped = count(1)
	require.Equal(t, []int{1, 5001 - loginsLogged}, []int{warned, skipped})
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
	for range 3 * loginsLogged {
		require.NotZero(t, asPlain(n.dial(), "alice", "wrong").ErrorCode)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, loginsLogged, strings.Count(logged.String(), `level=WARN msg="authentication failed" remote=`), logged.String())
	require.Equal(t, loginsLogged, strings.Count(logged.String(), "mechanism=PLAIN"))
}
