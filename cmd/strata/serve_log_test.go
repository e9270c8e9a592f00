package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Six lines at Info for two brokers. The first has the version and the directory, the next two the
// recovery of each broker's directory. The others have the brokers and each listener.
func TestServeLogsItsStartAndWhatRecoveryDid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir, "--brokers", "2")
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "a", "-b", p.addr).code)
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.wait(t)
	p = start(t, "--dir", dir, "--listen", "localhost:0", "--log-level", "info")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	var lines []string
	for line := range strings.Lines(p.errs.String()) {
		_, line, _ = strings.Cut(line, " level=INFO msg=")
		for _, of := range []string{`"strata starts" `, `"partitions opened" `, `"cluster opened" `, `"listener opened" `} {
			if strings.HasPrefix(line, of) {
				lines = append(lines, line)
			}
		}
	}
	require.Len(t, lines, 6, p.errs.String()) // of two brokers
	require.Regexp(t, `^"strata starts" version=\S+ go=go\S+ directory=`+dir+` listen=localhost:0\n$`, lines[0])
	opened := lines[1] + lines[2]
	for _, broker := range []string{"1", "2"} {
		require.Regexp(t, `"partitions opened" broker=`+broker+` directory=`+dir+`/broker-`+broker+` partitions=\d+ not_closed_in_order=\d+ scanned_bytes=\d+ cut_bytes=0 rebuilt_indexes=\d+ files_set_aside=0\n`, opened)
	}
	require.Contains(t, opened, " partitions=1 not_closed_in_order=1 ", "the one that was written")
	require.Regexp(t, `^"cluster opened" cluster=\S{22} directory=`+dir+` brokers="\[1 2\]" controller=\d\n$`, lines[3])
	require.Regexp(t, `^"listener opened" broker=\d listener=PLAINTEXT protocol=PLAINTEXT address=127\.0\.0\.1:\d+ advertised=localhost:\d+\n$`, lines[4])
}
