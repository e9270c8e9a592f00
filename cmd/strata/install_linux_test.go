package main

import (
	"bufio"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/modproxy"
	"github.com/stratalog/strata/internal/pages"
)

// goAway returns a go command in dir that uses this checkout only as a version of a module proxy.
// The proxy has the other modules in the versions of the test binary. There is no network.
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

// builds skips a test that compiles the whole module again, for more than a minute, unless
// STRATA_BUILDS is set, as in .ci/run.
func builds(t *testing.T) {
	if os.Getenv("STRATA_BUILDS") == "" {
		t.Skip("builds the module again: STRATA_BUILDS=1 runs it")
	}
}

const checkoutVersion = "v0.99.0"

func TestGoRunAtLatestServes(t *testing.T) {
	builds(t)
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

// A module that imports a package does not load the modules of the command, nor has them in
// go.sum.
func TestImportersLoadNothingOfTheCommand(t *testing.T) {
	builds(t)
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

// The test of the tutorial passes in an empty directory.
func TestFirstTestRunsInAnotherModule(t *testing.T) {
	builds(t)
	page, err := os.ReadFile(filepath.Join(home, "..", "..", "docs", "tutorial", "5-test-your-service.md"))
	require.NoError(t, err)
	blocks, err := pages.Blocks(string(page))
	require.NoError(t, err)
	i := slices.IndexFunc(blocks, func(b pages.Block) bool { return b.File == "orders_test.go" })
	require.GreaterOrEqual(t, i, 0)
	cache, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orders_test.go"), []byte(blocks[i].Text), 0o644))
	var out []byte
	for _, args := range [][]string{{"mod", "init", "example.com/shop"}, {"mod", "tidy"}, {"test", "-v", "."}} {
		out, err = goAway(t, dir, cache, args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	require.Contains(t, string(out), "--- PASS: TestOrderIsWrittenOnceThoughTheAnswerIsLost")
	_, err = os.Stat(filepath.Join(cache, "mod", "cache", "download", "github.com", "spf13"))
	require.ErrorIs(t, err, os.ErrNotExist, "libraries of the command were fetched")
}

// An image with only this program has no libraries to link with.
func TestProgramIsLinkedWithNothing(t *testing.T) {
	builds(t)
	name := filepath.Join(t.TempDir(), "strata")
	build := exec.Command("go", "build", "-o", name, ".")
	build.Dir, build.Env = home, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	f, err := elf.Open(name)
	require.NoError(t, err)
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type)
	}
}
