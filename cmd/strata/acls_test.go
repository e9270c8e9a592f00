package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACLsAreAddedListedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir, "--authorize", "--super-users", "User:ANONYMOUS", "--listen", "127.0.0.1:0")
	at := []string{"--bootstrap", p.addr}
	got := session(t, at,
		[]string{"acls", "add", "--type", "topic", "--name", "orders", "--principal", "User:alice", "--operation", "read"},
		[]string{"acls", "add", "--type", "cluster", "--principal", "User:*", "--operation", "all", "--permission", "deny"},
		[]string{"acls", "list"},
		[]string{"acls", "list", "--type", "topic", "--name", "orders", "--pattern", "match", "--json"},
		[]string{"acls", "remove", "--principal", "User:alice"},
		[]string{"acls", "remove"},
		[]string{"acls", "add", "--type", "topic", "--name", "orders", "--principal", "alice", "--operation", "read"},
		[]string{"acls", "add", "--type", "topic", "--name", "orders", "--principal", "User:alice", "--operation", "read", "--host", "localhost"},
		[]string{"acls", "add", "--type", "topik", "--principal", "User:alice", "--operation", "read"},
	)
	require.Contains(t, got, "added ALLOW User:alice READ from * on LITERAL TOPIC:orders\n")
	require.Contains(t, got, "acls list\nALLOW User:alice READ from * on LITERAL TOPIC:orders\nDENY User:* ALL from * on LITERAL CLUSTER:kafka-cluster\n")
	require.Contains(t, got, `{"type":"acl","resourceType":"TOPIC","resource":"orders","patternType":"LITERAL","principal":"User:alice","host":"*","operation":"READ","permission":"ALLOW"}`)
	require.Contains(t, got, "removed ALLOW User:alice READ from * on LITERAL TOPIC:orders\n")
	require.Contains(t, got, "acls remove\nstrata: no flag selects entries; --all removes all of them\nexit code 2\n")
	require.Contains(t, got, "expected a string in format principalType:principalName but got alice\nexit code 2\n")
	require.Contains(t, got, "strata: --host localhost: must be an address, as 10.0.0.7 or ::1, or *; an entry with another host matches no client\nexit code 2\n")
	require.Contains(t, got, `unknown resource type "topik"`)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, p.wait(t))
	require.Contains(t, session(t, []string{"--dir", dir}, []string{"acls", "list"}), "DENY User:* ALL", "a directory can be helped whatever the entries say")
}
