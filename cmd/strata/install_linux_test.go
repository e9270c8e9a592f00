package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/modproxy"
)

// goAway returns a go command in dir, which knows nothing of this checkout but what a module proxy
// has of it, as a version of its own. Other modules are those that the tests were built of; there
// is no network.
func goAway(t *testing.T, dir, cache string, args ...string) *exec.Cmd {
	t.Helper()
	proxy := filepath.Join(cache, "proxy")
	if _, err := os.Stat(proxy); err != nil {
		require.NoError(t, modproxy.Write(proxy, filepath.Join(home, "..", ".."), checkoutVersion))
	}
	had, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(had)), "cache", "download"),
		"GOMODCACHE="+filepath.Join(cache, "mod"), "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off")
	return c
}

const checkoutVersion = "v0.99.0"

func TestGoRunAtLatestServes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything anew")
	}
	cache := t.TempDir()
	at := "github.com/stratalog/strata/cmd/strata@latest"
	out, err := goAway(t, t.TempDir(), cache, "run", at, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "strata version "+checkoutVersion)

	c := goAway(t, t.TempDir(), cache, "run", at, "serve", "--memory")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run passes no signals on
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	defer func() {
		require.NoError(t, syscall.Kill(-c.Process.Pid, syscall.SIGTERM))
		_ = c.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	require.True(t, ok, line)
	require.Equal(t, exitOK, command(t, "", "produce", "orders", "hello", "-b", addr).code)
	require.Equal(t, "hello\n", command(t, "", "consume", "orders", "--values", "-b", addr).out)
}

// Who imports a package does not load the modules of the command, nor has them in go.sum.
func TestImportersLoadNothingOfTheCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything anew")
	}
	cache, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/audit\n\ngo 1.26.0\n\nrequire github.com/stratalog/strata "+checkoutVersion+"\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport _ \"github.com/stratalog/strata/log\"\n\nfunc main() {}\n"), 0o644))
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", filepath.Join(cache, "audit"), "."}} {
		out, err := goAway(t, dir, cache, args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		p, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(p), "github.com/stratalog/strata "+checkoutVersion)
		require.NotRegexp(t, `cobra|pflag|kadm|mousetrap|franz-go`, string(p))
	}
	loaded, err := filepath.Glob(filepath.Join(cache, "mod", "cache", "download", "github.com", "*"))
	require.NoError(t, err)
	for _, owner := range loaded {
		require.NotContains(t, []string{"spf13", "twmb"}, filepath.Base(owner))
	}
}

// The code of the README is a test that passes, in a directory where nothing was before.
func TestReadmeIsATestInAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything anew")
	}
	readme, err := os.ReadFile(filepath.Join(home, "..", "..", "README.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "## A fake broker for your tests\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var file strings.Builder
	for i, block := range strings.Split(section, "```") {
		if code, ok := strings.CutPrefix(block, "go\n"); ok && i%2 == 1 {
			file.WriteString(code + "\n")
		}
	}
	cache, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orders_test.go"), []byte(file.String()), 0o644))
	var out []byte
	for _, args := range [][]string{{"mod", "init", "example.com/shop"}, {"mod", "tidy"}, {"test", "-v", "."}} {
		out, err = goAway(t, dir, cache, args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	require.Contains(t, string(out), "--- PASS: TestOrderIsWrittenOnceThoughTheAnswerIsLost")
	_, err = os.Stat(filepath.Join(cache, "mod", "cache", "download", "github.com", "spf13"))
	require.ErrorIs(t, err, os.ErrNotExist, "libraries of the command were fetched")
}
