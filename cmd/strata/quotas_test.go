package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuotasAreSetListedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir, "--listen", "127.0.0.1:0")
	got := session(t, []string{"--bootstrap", p.addr},
		[]string{"quotas", "set", "--for-user", "alice", "--default-client-id", "producer_byte_rate=1048576", "request_percentage=12.5"},
		[]string{"quotas", "set", "--for-user", "alice", "consumer_byte_rate=1"},
		[]string{"quotas", "set", "--for-user", "alice", "producer_byte_rate=2"},
		[]string{"quotas", "set", "--default-ip", "connection_creation_rate=5"},
		[]string{"quotas", "list", "--for-user", "alice"},
		[]string{"quotas", "list", "--default-ip", "--json"},
		[]string{"quotas", "remove", "--for-user", "alice", "producer_byte_rate"},
		[]string{"quotas", "remove", "--for-user", "alice", "producer_byte_rate"},
		[]string{"quotas", "remove", "--for-user", "alice", "--default-client-id"},
		[]string{"quotas", "set", "--for-user", "alice", "producer_byte_rate=0"},
		[]string{"quotas", "set", "--for-user", "alice", "producer_byte_rate"},
		[]string{"quotas", "set", "producer_byte_rate=1"},
		[]string{"quotas", "set", "--for-user", "alice", "--default-user", "producer_byte_rate=1"},
	)
	require.Contains(t, got, "user alice, client-id (default): producer_byte_rate=1048576 request_percentage=12.5\n")
	require.Contains(t, got, "user alice: consumer_byte_rate=1 producer_byte_rate=2\n")
	require.Contains(t, got, "quotas list --for-user alice\nuser alice, client-id (default): producer_byte_rate=1048576 request_percentage=12.5\nuser alice: consumer_byte_rate=1 producer_byte_rate=2\n")
	require.Contains(t, got, `{"type":"quota","entity":{"ip":null},"quotas":{"connection_creation_rate":5}}`)
	require.Contains(t, got, "quotas remove --for-user alice producer_byte_rate\nuser alice: consumer_byte_rate=1\n")
	require.Contains(t, got, "no quota producer_byte_rate to remove\nexit code 1\n")
	require.Contains(t, got, "quotas remove --for-user alice --default-client-id\nuser alice, client-id (default): none\n")
	require.Contains(t, got, "Quota producer_byte_rate must be greater than 0")
	require.Contains(t, got, "must be KEY=NUMBER\nexit code 2\n")
	require.Contains(t, got, "no entity: give")
	require.Contains(t, got, "exclude each other\nexit code 2\n")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	require.Contains(t, session(t, []string{"--dir", dir}, []string{"quotas", "list"}), "user alice: consumer_byte_rate=1\n")
}
