package verify

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/vfs"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// golden returns files of Apache Kafka 4.3.0, in memory: /log is a broker's directory after a
// clean stop, /killed has two partitions after a kill.
func golden(t testing.TB) *vfs.MemFS {
	t.Helper()
	f, err := os.Open("testdata/kafka.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	m := vfs.Mem()
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return m
		}
		require.NoError(t, err)
		name := filepath.Join("/", h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, m.MkdirAll(name, 0o755))
			continue
		}
		require.NoError(t, m.MkdirAll(filepath.Dir(name), 0o755))
		p, err := io.ReadAll(tr)
		require.NoError(t, err)
		write(t, m, name, p)
	}
}

func write(t testing.TB, m vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(p, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t testing.TB, m vfs.FS, name string) []byte {
	t.Helper()
	p, err := vfs.ReadFile(m, name)
	require.NoError(t, err)
	return p
}

// files lists the files below dir, except deleted ones.
func files(t testing.TB, m vfs.FS, dir string) []string {
	t.Helper()
	var out []string
	entries, err := m.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			out = append(out, files(t, m, name)...)
		case !strings.HasSuffix(name, ".deleted"):
			out = append(out, name)
		}
	}
	return out
}

// check verifies dir and returns the findings.
func check(t testing.TB, m vfs.FS, dir string) (Counts, []Finding) {
	t.Helper()
	var fs []Finding
	n, err := Dir(context.Background(), dir, Options{FS: m, Found: func(f Finding) { fs = append(fs, f) }})
	require.NoError(t, err)
	return n, fs
}

func damages(fs []Finding) (out []Finding) {
	for _, f := range fs {
		if f.Severity == Damage {
			out = append(out, f)
		}
	}
	return out
}
