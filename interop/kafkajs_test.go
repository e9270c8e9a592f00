package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// installJS installs kafkajs beside copies of the programs in the user's cache directory, once.
var installJS = sync.OnceValues(func() (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "strata-interop", "js")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "interop.js", "logins.js"} {
		b, err := os.ReadFile(filepath.Join("js", name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "kafkajs", "package.json")); err == nil {
		return dir, nil
	}
	cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--silent")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	return dir, cmd.Run()
})

var jsProgram = program{command: func(t *testing.T, ctx context.Context, addr string) *exec.Cmd {
	need(t, "node", "npm")
	dir, err := installJS()
	require.NoError(t, err)
	return exec.CommandContext(ctx, "node", filepath.Join(dir, "interop.js"), addr)
}}

var _ = func() bool {
	for _, name := range []string{"produce-and-consume", "produce-gzip", "produce-idempotent", "produce-acks-0", "group", "admin", "transactions"} {
		add("kafkajs/"+name, func(t *testing.T, k target) { jsProgram.result(t, k, name) })
	}
	return true
}()
