package interop

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/commandtable"
)

// TestCommandsOfThePage runs the commands of docs/howto/commands.md, and more, each tool against a
// `strata serve` of its own, and checks the result of each command.
func TestCommandsOfThePage(t *testing.T) {
	rows, err := commandtable.Parse(commandtable.Jobs)
	require.NoError(t, err)
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "./cmd/strata")
	build.Dir = ".."
	run(t, build)
	for _, column := range []string{"kcat", "Kafka", "strata"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			path := programs
			switch column {
			case "kcat":
				need(t, "kcat")
			case "Kafka":
				scripts := t.TempDir()
				require.NoError(t, kafkaKit(t).Scripts(scripts))
				path += string(os.PathListSeparator) + scripts
			}
			dir := t.TempDir()
			s := commandtable.Session{Column: column, Dir: dir, Path: path}
			s.Before = func(job string) {
				if column == "Kafka" && job == "decode a log file" {
					eventually(t, "no zeros at the end of the log", func() bool {
						b, err := os.ReadFile(filepath.Join(dir, "data/broker-1/orders-0/00000000000000000000.log"))
						return err == nil && len(b) > 0 && b[len(b)-1] != 0
					})
				}
			}
			s.Addr = serveIn(t, dir, filepath.Join(programs, "strata"))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			require.NoError(t, s.Run(ctx, rows, func(job string, err error) { t.Logf("%s: %v", job, err) }))
		})
	}
}

// serveIn starts the server of the page's first command in dir, until the end of the test, and
// returns its address.
func serveIn(t *testing.T, dir, strata string) string {
	t.Helper()
	cmd := exec.Command(strata, "serve", "--dir", "data", "--authorize", "--super-users", "User:ANONYMOUS")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		require.NoError(t, cmd.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "ready ")
	require.True(t, ok, line)
	return addr
}
