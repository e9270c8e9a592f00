package main

import (
	"bytes"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/pages"
	"github.com/stratalog/strata/kafka"
)

func TestRunAgainResumesAndCountsNothingTwice(t *testing.T) {
	dir := t.TempDir()
	var first, second bytes.Buffer
	require.NoError(t, run(t.Context(), place{dir: dir}, "", &first), first.String())
	require.Contains(t, first.String(), "418 of 418 lines were new")
	require.Contains(t, first.String(), "cleo")
	require.NoError(t, run(t.Context(), place{dir: dir}, "", &second), second.String())
	require.Contains(t, second.String(), "0 of 418 lines were new")
	require.Contains(t, second.String(), "counted 0 records")
}

func TestProgramWithoutDirectoryShowsThatItResumes(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, runTwice(t.Context(), place{}, "", &out), out.String())
	require.Regexp(t, `(?s)418 of 418 lines were new.*counted 418 records\n.*The same again.*0 of 418 lines were new.*counted 0 records\n`, out.String())
	require.Equal(t, 2, bytes.Count(out.Bytes(), []byte("nothing lost, nothing counted twice")))
	require.NotContains(t, out.String(), "\n\n\n", "one blank line between two parts")
}

func TestSameProgramRunsOnABrokerElsewhere(t *testing.T) {
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	s := kafka.NewServer(cluster, kafka.Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(1, ln) }()
	at := place{dir: t.TempDir(), kafka: ln.Addr().String()}
	var first, second bytes.Buffer
	require.NoError(t, run(t.Context(), at, "", &first), first.String())
	require.Contains(t, first.String(), "418 of 418 lines were new")
	require.Contains(t, first.String(), "nothing lost, nothing counted twice")
	require.NoError(t, run(t.Context(), at, "", &second), second.String())
	require.Contains(t, second.String(), "0 of 418 lines were new")
	require.Contains(t, second.String(), "counted 0 records")
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-served, kafka.ErrServerClosed)
	require.NoError(t, cluster.Close())
}

func TestMissingFileIsAnError(t *testing.T) {
	require.Error(t, run(t.Context(), place{dir: t.TempDir()}, "no such file", &bytes.Buffer{}))
}

func TestReadmeShowsTheOutput(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	blocks, err := pages.Blocks(string(readme))
	require.NoError(t, err)
	require.Equal(t, "text", blocks[0].Language)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), place{dir: t.TempDir()}, "", &out))
	require.NoError(t, pages.Match(strings.Split(strings.TrimSuffix(blocks[0].Text, "\n"), "\n"), out.String()))
}
