package main

import (
	"context"
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/cmd/internal/killloop"
	"github.com/stratalog/strata/cmd/internal/verify"
	"github.com/stratalog/strata/vfs"
)

var killCycles = flag.Int("kill.cycles", 5, "kills of strata serve in TestKilledAgainAndAgain")

func (p *process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) {
		return err
	}
	return nil
}

// strata serve is killed with SIGKILL under load. Acknowledged records are there, once and in
// order; so are commits.
func TestKilledAgainAndAgain(t *testing.T) {
	dir, verified := filepath.Join(t.TempDir(), "data"), 0
	rep, err := killloop.Run(t.Context(), killloop.Config{
		Cycles: *killCycles,
		Start: func(_ context.Context, addr string) (killloop.Broker, string, error) {
			args := []string{"--dir", dir, "--set", "segment.bytes=1048576"}
			if addr != "" {
				args = append(args, "--listen", addr)
			}
			p := start(t, args...)
			if p.ready == "" {
				return nil, "", errors.Join(errors.New("no ready line"), p.cmd.Wait(), errors.New(p.errs.String()))
			}
			return p, p.addr, nil
		},
		Killed: func() error {
			if verified++; verified > 5 {
				return nil // reading everything each time would take longer and longer
			}
			n, err := verify.Dir(t.Context(), dir, verify.Options{FS: vfs.OS(), Found: func(f verify.Finding) { t.Log(f) }})
			if err == nil && n.Damages > 0 {
				err = errors.New("verify finds damage")
			}
			return err
		},
	})
	require.NoError(t, err)
	t.Logf("%+v", rep)
	require.NoError(t, rep.Err())
	require.Equal(t, *killCycles, rep.Cycles)
	require.Positive(t, rep.Acked)
	require.Positive(t, rep.Commits)
}
