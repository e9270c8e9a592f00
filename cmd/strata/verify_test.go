package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

func TestVerifyOfGoodDirectories(t *testing.T) {
	inKafkaDirectory(t)
	r := strataRun(t, "verify", "log")
	require.Equal(t, exitOK, r.code)
	golden(t, "verify-good.text", r.out)
	r = strataRun(t, "verify", "log", "--json")
	golden(t, "verify-good.json", r.out)
	r = strataRun(t, "verify", "killed/transactions-0", "--quiet")
	require.Equal(t, exitOK, r.code)
	require.Empty(t, r.err)
}

func TestVerifyOfDamagedFiles(t *testing.T) {
	inKafkaDirectory(t)
	dir := "log/transactions-0/"
	flip(t, dir+"00000000000000000010.log", 100)
	flip(t, dir+"00000000000000000010.index", 7)
	flip(t, dir+"00000000000000000010.timeindex", 7)
	flip(t, dir+"00000000000000000010.txnindex", 40)
	flip(t, dir+"00000000000000000010.snapshot", 20)
	flip(t, dir+"leader-epoch-checkpoint", 0)
	flip(t, dir+"partition.metadata", 0)
	flip(t, "log/recovery-point-offset-checkpoint", 0)
	require.NoError(t, os.Remove(dir+"00000000000000000000.timeindex"))
	r := strataRun(t, "verify", "log")
	require.Equal(t, exitFailed, r.code)
	golden(t, "verify-damaged.text", r.out)
	r = strataRun(t, "verify", "log", "--json")
	require.Equal(t, exitFailed, r.code)
	golden(t, "verify-damaged.json", r.out)
}

func TestVerifyOfATornTail(t *testing.T) {
	inKafkaDirectory(t)
	name := "killed/rolled-0/00000000000000000010.log"
	p, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, p[:len(p)-5], 0o644))
	r := strataRun(t, "verify", "killed/rolled-0")
	require.Equal(t, exitOK, r.code)
	golden(t, "verify-torn.text", r.out)
}

// The last batch of a killed process's log is damaged. verify reports damage if an open would
// reject the log, and an incomplete write if an open would truncate it.
func TestVerifyDecidesAboutALastBatchAsAnOpenDoes(t *testing.T) {
	const name = "00000000000000000000.log"
	written := filepath.Join(t.TempDir(), "orders-0")
	l, err := log.Open(written, log.Config{})
	require.NoError(t, err)
	for range 3 {
		_, err = l.Append(t.Context(), record.String("", "key", "value"))
		require.NoError(t, err)
	}
	killed := filepath.Join(t.TempDir(), "orders-0")
	require.NoError(t, os.CopyFS(killed, os.DirFS(written)))
	require.NoError(t, l.Close())
	p, err := os.ReadFile(filepath.Join(killed, name))
	require.NoError(t, err)
	size := l.Size() / 3
	last := int(2 * size)
	opened := map[bool]int{}
	damaged := func(change func(p []byte)) {
		dir := filepath.Join(t.TempDir(), "orders-0")
		require.NoError(t, os.CopyFS(dir, os.DirFS(killed)))
		q := bytes.Clone(p)
		change(q[last : 3*size])
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), q, 0o644))
		r := strataRun(t, "verify", dir)
		l, err := log.Open(dir, log.Config{})
		if opened[err == nil]++; err == nil {
			require.NoError(t, l.Close())
			require.Equal(t, exitOK, r.code, r.out)
			return
		}
		require.ErrorIs(t, err, log.ErrCorrupt)
		require.Equal(t, exitFailed, r.code, "%s: %v", r.out, err)
		require.NotContains(t, r.out, "incomplete last batch")
	}
	looked := sample.Fewer(t, 3)
	for i := range int(size) - 1 {
		if looked(i) {
			damaged(func(p []byte) { p[i] ^= 1 << (i % 8) })
		}
	}
	for _, kept := range []int{10, record.HeaderSize, record.HeaderSize + 4, int(size) - 2} {
		damaged(func(p []byte) { clear(p[kept:]) })
		damaged(func(p []byte) { clear(p[kept:]); p[kept-1], p[kept-2] = 0xff, 0x77 })
	}
	require.NotZero(t, opened[true])
	require.NotZero(t, opened[false])
}

// verify prints the actions of recovery, and does not do them.
func TestVerifyTellsWhatRecoveryWouldDo(t *testing.T) {
	inKafkaDirectory(t)
	require.NoError(t, os.WriteFile("killed/rolled-0/00000000000000000000.log.cleaned", []byte("half"), 0o644))
	require.NoError(t, os.WriteFile("killed/rolled-0/00000000000000000000.log.aside", []byte("of old"), 0o644))
	before, err := os.ReadDir("killed/rolled-0")
	require.NoError(t, err)
	r := strataRun(t, "verify", "killed/rolled-0")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.out, "the next open would: remove 00000000000000000000.log.cleaned (left by a compaction that was not committed)\n")
	require.Contains(t, r.out, "1 files were set aside by recovery")
	require.NotContains(t, r.out, "log.aside (")
	after, err := os.ReadDir("killed/rolled-0")
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))
	l, err := log.Open("killed/rolled-0", log.Config{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = os.Stat("killed/rolled-0/00000000000000000000.log.cleaned")
	require.ErrorIs(t, err, os.ErrNotExist, "as it was told")
	r = strataRun(t, "verify", "killed/rolled-0")
	require.NotContains(t, r.out, "the next open would")
}

// A directory without meta.properties is damage: its broker could not start.
func TestVerifyMissesMetaProperties(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	require.Equal(t, exitOK, strataRun(t, "verify", dir).code)
	broker := filepath.Join(dir, "broker-1")
	damage := "DAMAGE " + filepath.Join(broker, "meta.properties") + ": is missing"
	missed := func(dir string) {
		r := strataRun(t, "verify", dir)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.out, damage)
	}
	require.NoError(t, os.Remove(filepath.Join(broker, "meta.properties")))
	missed(dir)
	missed(broker)
	for _, name := range []string{"log-start-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown", "strata.closed"} {
		require.NoError(t, os.Remove(filepath.Join(broker, name)))
	}
	missed(dir) // only its metadata is left
}

// A missing directory is damage, with a way to repair it. A directory in use or stopped in order
// is good.
func TestVerifyFindsAMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--dir", dir)
	require.Equal(t, exitOK, strataRun(t, "produce", "orders", "a", "b", "-b", p.addr).code)
	r := strataRun(t, "verify", "--quiet", dir)
	require.Equal(t, exitOK, r.code, r.out)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitOK, p.wait(t))
	r = strataRun(t, "verify", "--quiet", dir)
	require.Equal(t, exitOK, r.code, r.out)
	lost := filepath.Join(dir, "broker-1", "orders-0")
	require.NoError(t, os.RemoveAll(lost))
	r = strataRun(t, "verify", dir)
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, "(?m)^DAMAGE "+lost+": .*: the directory is missing \\(", r.out)
}
