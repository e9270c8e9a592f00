package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/commandtable"
)

// Every command of docs/howto/commands.md, and more, is run, and its result is checked.
func TestCommandsOfThePage(t *testing.T) {
	rows, err := commandtable.Parse(commandtable.Jobs)
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
