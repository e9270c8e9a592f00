package kafka

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// A reader of a damaged partition retries at once, thousands of times a second.
func TestFailuresOfRequestsAreLoggedAFewTimesAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := &call{s: &Server{log: slog.New(slog.NewTextHandler(&out, nil))}}
		for range 1000 {
			require.Equal(t, UnknownServerError, Code(c.errorCode(errors.New("a disk fails"))))
		}
		require.Equal(t, logBurst, strings.Count(out.String(), "request failed"))
		out.Reset()
		time.Sleep(logPeriod)
		c.errorCode(errors.New("a disk fails"))
		require.Equal(t, 1, strings.Count(out.String(), "request failed"))
		require.Contains(t, out.String(), `"lines left out"=990`)
	})
}

// A client connects and closes the connection, as a load balancer's check does.
func TestPortChecksAreLoggedAFewTimesAPeriod(t *testing.T) {
	var out safeLog
	s, addr := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&out, nil)), Security: Security{TLS: serverTLS(t, authority(t), tls.NoClientCert)}})
	for range 3 * logBurst {
		dial(t, addr).nc.Close()
	}
	require.Eventually(t, func() bool {
		s.strangers.mu.Lock()
		defer s.strangers.mu.Unlock()
		return s.strangers.lines == 3*logBurst
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.Equal(t, logBurst, strings.Count(out.String(), "before it authenticated"))
}

// safeLog is text that several goroutines write.
type safeLog struct {
	mu   sync.Mutex // guards the field below; a leaf
	text strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
