package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
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

// What recovery would do is printed, and not done.
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

// A directory that its broker could not be started from is not all good.
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
	missed(dir) // nothing but its metadata is left
}
