package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsersAreSetListedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte("admin=secret\n"), 0o600))
	p := start(t, "--dir", dir, "--users", file)
	t.Setenv("STRATA_USER", "admin")
	t.Setenv("STRATA_PASSWORD", "secret")
	at := []string{"--bootstrap", p.addr}
	got := session(t, at,
		[]string{"users", "set", "alice", "<first\nnot this\n"},
		[]string{"users", "set", "bob", "--mechanism", "scram-sha-256", "--iterations", "4096", "<pw"},
		[]string{"users", "list"},
		[]string{"users", "list", "alice", "--json"},
		[]string{"users", "list", "carol"},
		[]string{"users", "set", "alice", "<\n"},
		[]string{"users", "set", "alice", "--iterations", "4095"},
		[]string{"users", "set", "alice", "--mechanism", "md5"},
		[]string{"users", "remove", "bob", "--mechanism", "scram-sha-512"},
	)
	require.Equal(t, `$ strata users set alice
alice: SCRAM-SHA-256 set
alice: SCRAM-SHA-512 set
$ strata users set bob --mechanism scram-sha-256 --iterations 4096
bob: SCRAM-SHA-256 set
$ strata users list
admin: SCRAM-SHA-256, 4096 iterations
admin: SCRAM-SHA-512, 4096 iterations
alice: SCRAM-SHA-256, 8192 iterations
alice: SCRAM-SHA-512, 8192 iterations
bob: SCRAM-SHA-256, 4096 iterations
$ strata users list alice --json
{"type":"user","user":"alice","mechanism":"SCRAM-SHA-256","iterations":8192}
{"type":"user","user":"alice","mechanism":"SCRAM-SHA-512","iterations":8192}
$ strata users list carol
strata: carol: no such user
exit code 1
$ strata users set alice
strata: no password in the first line of standard input
exit code 1
$ strata users set alice --iterations 4095
strata: --iterations 4095: must be 4096 to 16384
exit code 2
$ strata users set alice --mechanism md5
strata: --mechanism md5: must be scram-sha-256 or scram-sha-512
exit code 2
$ strata users remove bob --mechanism scram-sha-512
strata: bob: the user has no password for that mechanism
exit code 1
`, got)
	t.Setenv("STRATA_USER", "alice")
	for password, want := range map[string]int{"first": exitOK, "not this": exitFailed} {
		t.Setenv("STRATA_PASSWORD", password)
		for _, how := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
			require.Equal(t, want, command(t, "", append([]string{"topics", "list", "--sasl", how}, at...)...).code, "%s: %s", how, password)
		}
	}
	t.Setenv("STRATA_USER", "admin")
	t.Setenv("STRATA_PASSWORD", "secret")
	require.Equal(t, result{exitOK, "alice: SCRAM-SHA-256 removed\n", ""}, command(t, "", append([]string{"users", "remove", "alice", "--mechanism", "scram-sha-256"}, at...)...))
	t.Setenv("STRATA_USER", "alice")
	t.Setenv("STRATA_PASSWORD", "first")
	require.Equal(t, exitFailed, command(t, "", append([]string{"topics", "list", "--sasl", "scram-sha-256"}, at...)...).code)
	require.Equal(t, exitOK, command(t, "", append([]string{"topics", "list", "--sasl", "scram-sha-512"}, at...)...).code)
	t.Setenv("STRATA_USER", "admin")
	t.Setenv("STRATA_PASSWORD", "secret")
	require.Equal(t, result{exitOK, "alice: SCRAM-SHA-512 removed\n", ""}, command(t, "", append([]string{"users", "remove", "alice"}, at...)...))
	require.Equal(t, exitOK, command(t, "pw", append([]string{"users", "set", "bob"}, at...)...).code)
	r := command(t, "", append([]string{"users", "remove", "bob"}, at...)...)
	require.Equal(t, "strata: bob: no such user\n", command(t, "", append([]string{"users", "list", "bob"}, at...)...).err, r.out)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	r = command(t, "", "users", "remove", "alice", "--dir", dir)
	require.Equal(t, result{exitFailed, "", "strata: alice: no such user\n"}, r)
}
