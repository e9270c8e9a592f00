package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// asProgram, in the environment, makes the test binary the program itself.
const asProgram = "STRATA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Setenv(configEnv, "") // the environment's configuration file does not apply to tests
	leaktest.Main(m)
}

// result is the result of one run of the program.
type result struct {
	code     int
	out, err string
}

// strataRun runs the program in this process.
func strataRun(t testing.TB, args ...string) result {
	t.Helper()
	return strataIn(t, "", args...)
}

func strataIn(t testing.TB, in string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, streams{strings.NewReader(in), &out, &errs})
	return result{code, out.String(), errs.String()}
}

// golden compares got with a file in testdata.
func golden(t testing.TB, file, got string) {
	t.Helper()
	file = filepath.Join(home, "testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// home is the directory of this package.
var home, _ = os.Getwd()

// inKafkaDirectory changes to a directory with files that Apache Kafka left behind: log/ after a
// clean stop, killed/ after a kill.
func inKafkaDirectory(t *testing.T) {
	t.Helper()
	f, err := os.Open("../internal/verify/testdata/kafka.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(h.Name, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(h.Name), 0o755))
		p, err := io.ReadAll(tr)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(h.Name, p, 0o644))
	}
}

// flip flips one bit of a file.
func flip(t testing.TB, name string, at int) {
	t.Helper()
	p, err := os.ReadFile(name)
	require.NoError(t, err)
	p[at] ^= 1
	require.NoError(t, os.WriteFile(name, p, 0o644))
}
