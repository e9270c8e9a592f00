package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/commandtable"
)

// Every command of docs/commands.md is run, and has done its job.
func TestCommandsOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(home, "..", "..", "docs", "commands.md"))
	require.NoError(t, err)
	rows, err := commandtable.Parse(string(page))
	require.NoError(t, err)
	programs := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(programs, "strata")))
	t.Chdir(t.TempDir())
	p := start(t, "--dir", "data", "--authorize", "--super-users", "User:ANONYMOUS")
	s := commandtable.Session{Column: "strata", Addr: p.addr, Dir: ".", Path: programs, Env: []string{asProgram + "=1"}}
	require.NoError(t, s.Run(t.Context(), rows, func(job string, err error) { t.Logf("%s: %v", job, err) }))
}
