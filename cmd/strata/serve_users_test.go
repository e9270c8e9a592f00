//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
)

// A user that is removed from the file while the server is stopped is rejected afterwards.
func TestServeForgetsUsersThatTheFileHasNoMore(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	letIn := func(text string, want map[string]bool) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		s := start(t, "--dir", filepath.Join(dir, "data"), "--users", file)
		for user, ok := range want {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.SASL(saslplain.Auth{User: user, Pass: user + "-pw"}.AsMechanism()))
			require.NoError(t, err)
			require.Equal(t, ok, cl.Ping(t.Context()) == nil, user)
			cl.Close()
		}
		require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
		require.Equal(t, exitOK, s.wait(t))
	}
	letIn("alice=alice-pw\nbob=bob-pw\n", map[string]bool{"alice": true, "bob": true})
	letIn("bob=bob-pw\n", map[string]bool{"alice": false, "bob": true})
}

// The users file is a pipe without a writer. A file on a network disk may hang like this.
func TestServeEndsWhileTheFileOfUsersCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte("alice=alice-pw\n"), 0o600))
	s := start(t, "--memory", "--users", file)
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	// The server has opened the pipe for reading once a writer can open it without waiting. The
	// content has no end until w is closed.
	var w *os.File
	require.Eventually(t, func() bool {
		fd, err := syscall.Open(file, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			w = os.NewFile(uintptr(fd), file)
		}
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	defer w.Close()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, s.wait(t))
	require.False(t, bytes.Contains(s.errs.Bytes(), []byte("users of the file")), s.errs.String())
}
