package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestArchivesOfTheSameFilesAreEqual(t *testing.T) {
	when := time.Unix(1767225600, 0).UTC()
	for name, write := range map[string]func(io.Writer, []file, time.Time) error{
		"tar": writeTar,
		"zip": writeZip,
	} {
		t.Run(name, func(t *testing.T) {
			var archives [][]byte
			for i := range 2 {
				dir := t.TempDir()
				for j, f := range []string{"a", "b"} {
					path := filepath.Join(dir, f)
					require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte(f), 1000), os.FileMode(0o600+i*0o44)))
					other := when.Add(time.Duration(i*10+j) * time.Hour)
					require.NoError(t, os.Chtimes(path, other, other))
				}
				to := filepath.Join(t.TempDir(), "archive")
				require.NoError(t, writeFile(to, filesOf(dir, i == 1), when, write))
				p, err := os.ReadFile(to)
				require.NoError(t, err)
				archives = append(archives, p)
			}
			require.True(t, bytes.Equal(archives[0], archives[1]))
			require.Contains(t, string(archives[0][:4]), map[string]string{"tar": "\x1f\x8b", "zip": "PK"}[name])
		})
	}
}

// filesOf returns the entries of an archive, in another order if reversed.
func filesOf(dir string, reversed bool) []file {
	all := []file{{"x/a", filepath.Join(dir, "a"), 0o755}, {"x/b", filepath.Join(dir, "b"), 0o644}, {name: "data/", mode: 0o755}}
	if reversed {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

func TestSumsNameEveryFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("abc"), 0o644))
	require.NoError(t, sums(dir))
	p, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"+
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n", string(p))
}

func TestReleaseRefusesBadArguments(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"is not a version":  {"0.1.0", filepath.Join(dir, "new"), "linux/amd64"},
		"-out is missing":   {"v0.1.0", "", "linux/amd64"},
		"file exists":       {"v0.1.0", dir, "linux/amd64"},
		"is not OS/ARCH":    {"v0.1.0", filepath.Join(dir, "other"), "linux"},
		"\"v0/1\" is not a": {"v0/1", filepath.Join(dir, "new"), "linux/amd64"},
	} {
		require.ErrorContains(t, build(t.Context(), args[0], args[1], args[2:]), want)
	}
}

// The image of a release runs with the settings of an image of a checkout.
func TestImageOfAReleaseHasTheSettingsOfTheDockerfile(t *testing.T) {
	settings := func(name string) (all []string) {
		p, err := os.ReadFile(name)
		require.NoError(t, err)
		_, last, found := strings.Cut(string(p), "FROM scratch\n")
		require.True(t, found)
		for line := range strings.Lines(last) {
			if !strings.HasPrefix(line, "COPY") && !strings.HasPrefix(line, "ARG") {
				all = append(all, line)
			}
		}
		return all
	}
	require.Equal(t, settings("../../Dockerfile"), settings("Dockerfile"))
}
