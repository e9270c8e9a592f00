package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionNamesTheFormatsOfFiles(t *testing.T) {
	r := strataRun(t, "version")
	require.Equal(t, exitOK, r.code, r.err)
	require.Regexp(t, `^strata \S+\n  commit .+\n  go go1\.\S+ \w+/\w+\n  formats: record batch 2, log state \d+, journal \d+, directory \d+, metadata.version \d+\n$`, r.out)
	var l versionLine
	r = strataRun(t, "version", "--json")
	require.NoError(t, json.Unmarshal([]byte(r.out), &l))
	require.Equal(t, exitMisuse, strataRun(t, "version", "now").code)

	// A broker writes files of these formats.
	dir := t.TempDir()
	serveBriefly(t, dir)
	props, err := os.ReadFile(filepath.Join(dir, "broker-1", "meta.properties"))
	require.NoError(t, err)
	m := regexp.MustCompile(`^#strata (\d+) `).FindSubmatch(props)
	require.Equal(t, strconv.Itoa(l.Formats.Directory), string(m[1]))
	state, err := os.ReadFile(filepath.Join(dir, "broker-1", "__cluster_metadata-0", "strata.state"))
	require.NoError(t, err)
	require.Equal(t, "STRATALG", string(state[:8]))
	require.Equal(t, []byte{0, 0, 0, byte(l.Formats.LogState)}, state[8:12])
}

// serveBriefly creates a cluster in dir and stops it.
func serveBriefly(t *testing.T, dir string) {
	t.Helper()
	p := start(t, "--dir", dir)
	require.NotEmpty(t, p.addr)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
}
