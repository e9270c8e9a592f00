package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCopyIsPromotedToACluster(t *testing.T) {
	b := serveOrders(t, "a b c")
	dir := filepath.Join(t.TempDir(), "copy")
	args := append([]string{"copy", "orders", "--to", dir, "--once"}, b...)
	r := strataRun(t, args...)
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "copy: 3 records copied, ")
	require.Empty(t, r.err)
	r = strataRun(t, append(args, "--json")...)
	require.Equal(t, exitOK, r.code, r.err)
	require.JSONEq(t, `{"type":"copy","dir":"`+dir+`","records":0,"bytes":0,"skipped":0}`, r.out)

	f := follow(t, append([]string{"copy", "orders", "--to", dir}, b...)...)
	require.Equal(t, exitOK, strataRun(t, append([]string{"produce", "orders", "later"}, b...)...).code)
	require.Eventually(t, func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "broker-1", "orders-0", "00000000000000000000.log"))
		return err == nil && bytes.Contains(log, []byte("later"))
	}, 20*time.Second, 5*time.Millisecond)
	rest, err := f.signalled(os.Interrupt)
	require.NoError(t, err, f.stderr())
	require.Contains(t, rest, "records copied")
	require.Equal(t, exitOK, strataRun(t, args...).code)

	r = strataRun(t, "promote", dir)
	require.Equal(t, exitOK, r.code, r.err)
	require.Contains(t, r.out, "1 topics, 1 partitions; 0 open transactions aborted")
	p := start(t, "--dir", dir)
	r = strataRun(t, "consume", "orders", "--partition", "0", "--values", "-b", p.addr)
	require.Equal(t, "a\nb\nc\nlater\n", r.out, r.err)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait(t))
	require.Equal(t, exitFailed, strataRun(t, "promote", dir).code, "it is a cluster already")
	require.NotEqual(t, exitOK, strataRun(t, "promote", filepath.Join(dir, "nowhere")).code)
	require.Equal(t, exitMisuse, strataRun(t, append([]string{"copy", "orders"}, b...)...).code)
}

func TestVerifyChecksACopy(t *testing.T) {
	b := serveOrders(t, "a b c")
	dir := filepath.Join(t.TempDir(), "copy")
	args := append([]string{"copy", "orders", "--to", dir, "--once"}, b...)
	require.Equal(t, exitOK, strataRun(t, args...).code)
	for _, checked := range []string{dir, filepath.Join(dir, "broker-1"), filepath.Join(dir, "broker-1", "orders-0")} {
		r := strataRun(t, "verify", checked)
		require.Equal(t, exitOK, r.code, r.out)
		require.Contains(t, r.out, ": all good, 0 notes")
	}
	log := filepath.Join(dir, "broker-1", "orders-0", "00000000000000000000.log")
	whole, err := os.ReadFile(log)
	require.NoError(t, err)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-2] ^= 1
	require.NoError(t, os.WriteFile(log, damaged, 0o600))
	require.Equal(t, exitFailed, strataRun(t, "verify", dir).code)
	require.NoError(t, os.WriteFile(log, whole, 0o600))

	require.NoError(t, os.Rename(filepath.Join(dir, "broker-1", "orders-0"), filepath.Join(dir, "broker-1", "others-0")))
	r := strataRun(t, "verify", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "DAMAGE "+dir+": the copy is damaged: broker-1/orders-0 is missing")
}

func TestCopyRefusesADirectoryOfAnotherProgram(t *testing.T) {
	b := serveOrders(t, "a")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
	r := strataRun(t, append([]string{"copy", "orders", "--to", dir, "--once"}, b...)...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "there is thesis.tex, and no copy (choose an empty directory)")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "it is as it was")
}
