package interop

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Share groups with the Java client: a real Kafka and Strata must give it the same deliveries and
// errors.

var javaShares = program{command: func(t *testing.T, ctx context.Context, addr string) *exec.Cmd {
	source, err := filepath.Abs("java/Shares.java")
	require.NoError(t, err)
	return kafkaKit(t).Java(ctx, source, addr)
}}

var _ = func() bool {
	for _, name := range []string{"implicit", "explicit", "delivery-limit", "lock-passes", "two-consumers", "partitions", "close-explicit", "close-implicit",
		"callback", "acquire-batch_optimized", "acquire-record_limit", "reset", "isolation-read_committed", "isolation-read_uncommitted", "misuse", "admin", "wakeup"} {
		add("java-share/"+strings.ReplaceAll(name, "_", "-"), func(t *testing.T, k target) { javaShares.result(t, k, name) })
	}
	return true
}()

// TestJavaShareConsumersSeeWhatTheySeeAtAKafka compares the deliveries and errors of the checks,
// with one broker and with three.
func TestJavaShareConsumersSeeWhatTheySeeAtAKafka(t *testing.T) {
	t.Parallel()
	saw := func(t *testing.T, k target) []string {
		ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
		defer cancel()
		out := run(t, javaShares.command(t, ctx, k.addr))
		require.NotContains(t, out, "\nfailed ", k.kind)
		lines := slices.Sorted(strings.Lines(out))
		return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "saw ") })
	}
	var want, one, three []string
	at := func(t *testing.T, name string, seen *[]string, start func(t *testing.T) target) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for locks to expire
			*seen = saw(t, start(t))
		})
	}
	t.Run("at", func(t *testing.T) {
		at(t, "Kafka", &want, func(t *testing.T) target {
			k := startKafka(t)
			awaitCoordinators(t, k)
			return k
		})
		at(t, "one broker", &one, func(t *testing.T) target {
			k, _ := startStrata(t)
			return k
		})
		at(t, "three brokers", &three, func(t *testing.T) target {
			ks, _ := startStrataBrokers(t, 3)
			return ks[2]
		})
	})
	require.Greater(t, len(want), 60)
	require.Equal(t, want, one)
	require.Equal(t, want, three)
}
