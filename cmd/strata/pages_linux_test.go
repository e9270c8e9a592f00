package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/pages"
)

// The commands of each page run in an empty directory of their own, and their output is as on the
// page.
func TestCommandsOfTutorialsAndGuides(t *testing.T) {
	repository, err := filepath.Abs(filepath.Join(home, "..", ".."))
	require.NoError(t, err)
	programs := programsOfPages(t, repository)
	for i, name := range commandPages(t, repository) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".md"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			if testing.Short() && strings.Contains(string(text), "\n$ go run") {
				t.Skip("builds a program")
			}
			// An address of its own, so that the ports of the page are free.
			pid := os.Getpid()
			p := pageRun{repository: repository, programs: programs, host: fmt.Sprintf("127.%d.%d.%d", 64+pid>>8&63, pid&255, 1+i)}
			p.run(t, string(text))
		})
	}
}

// commandPages returns the names of the pages with console blocks.
func commandPages(t *testing.T, repository string) []string {
	t.Helper()
	all := []string{filepath.Join(repository, "README.md")}
	for _, dir := range []string{"tutorial", "howto"} {
		found, err := filepath.Glob(filepath.Join(repository, "docs", dir, "*.md"))
		require.NoError(t, err)
		for _, name := range found {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			if strings.Contains(string(text), "```console\n") {
				all = append(all, name)
			}
		}
	}
	return all
}

// programsOfPages returns a directory with the commands strata and go. This go uses the checkout:
// `go mod tidy` needs no network, and no released version.
func programsOfPages(t *testing.T, repository string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "strata")))
	tool, err := exec.LookPath("go")
	require.NoError(t, err)
	script := fmt.Sprintf(`#!/bin/sh
set -e
if [ "$1 $2" = "mod tidy" ]; then
  %[1]s mod edit -require=github.com/stratalog/strata@v0.0.0 -replace=github.com/stratalog/strata=%[2]s
  cp %[2]s/go.sum .
else
  exec %[1]s "$@"
fi
`, tool, repository)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755))
	return dir
}

// A pageRun is a run of the commands of one page.
type pageRun struct {
	repository, programs string
	host                 string // stands for localhost
}

var hostPattern = regexp.MustCompile(`\blocalhost\b|\b127\.0\.0\.1\b`)

func (p pageRun) run(t *testing.T, page string) {
	blocks, err := pages.Blocks(page)
	require.NoError(t, err)
	dir := t.TempDir()
	var commands []pages.Command
	var script strings.Builder
	// Output of a command follows a line with its number; the exit code is on a line of its own.
	script.WriteString("exec 2>&1\nservers=()\ntrap 'kill \"${servers[@]}\" 2>/dev/null; wait' EXIT\n")
	for _, b := range blocks {
		if b.File != "" {
			require.True(t, filepath.IsLocal(b.File))
			fmt.Fprintf(&script, "cat >%s <<'end of the file'\n%send of the file\n", b.File, p.localized(b.Text))
		}
		if b.Language != "console" {
			continue
		}
		of, err := pages.Commands(b)
		require.NoError(t, err)
		for _, c := range of {
			fmt.Fprintf(&script, "printf '\\001%d\\n'\n%s\nprintf '\\002%%d\\n' $?\n", len(commands), p.shell(c.Text))
			commands = append(commands, c)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+p.programs+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "GOTOOLCHAIN=local", "STRATA_REPOSITORY="+p.repository)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, len(commands), bytes.Count(out, []byte{1}), "%s", out)
	for i, printed := range strings.Split(string(out), "\x01")[1:] {
		c := commands[i]
		_, printed, _ = strings.Cut(printed, "\n")
		printed, code, ended := strings.Cut(printed, "\x02")
		require.True(t, ended, "line %d: %s: %s", c.Line, c.Text, printed)
		if code = strings.TrimSpace(code); code != "0" {
			printed += "exit code " + code + "\n"
		}
		for n, line := range c.Output {
			c.Output[n] = strings.ReplaceAll(line, "127.0.0.1", "localhost")
		}
		if err := pages.Match(c.Output, strings.ReplaceAll(strings.ReplaceAll(printed, p.host, "localhost"), dir, "/home/you")); err != nil {
			t.Errorf("line %d: $ %s: %v", c.Line, c.Text, err)
		}
	}
}

func (p pageRun) localized(text string) string { return hostPattern.ReplaceAllString(text, p.host) }

var jobPattern = regexp.MustCompile(`%%`)

// shell returns the script of a command. For a server in the background it waits until the server
// is ready. A job's name, as in kill %%, means the server started last.
func (p pageRun) shell(command string) string {
	command = p.localized(command)
	if server, ok := strings.CutSuffix(command, " &"); ok {
		return "exec {ready}< <(exec " + server + " 2>server.err); servers+=($!); read -r line <&$ready && printf '%s\\n' \"$line\" || cat server.err"
	}
	if jobPattern.MatchString(command) {
		return jobPattern.ReplaceAllString(command, "${servers[-1]}")
	}
	return command
}
