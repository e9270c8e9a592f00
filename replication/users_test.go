package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Users survive a power cut, and are in snapshots of the metadata.
func TestUsersAreKeptByTheCluster(t *testing.T) {
	fs := vfs.Mem()
	open := func() *Cluster {
		c, err := Open(Config{Dir: "data", FS: fs, Brokers: 3})
		require.NoError(t, err)
		return c
	}
	c := open()
	require.NoError(t, c.SetPassword(t.Context(), "alice", "secret"))
	require.NoError(t, c.SetPassword(t.Context(), "bob", "secret", ScramSHA256))
	want := c.ScramUsers()
	require.Len(t, want["alice"], 2)
	require.Len(t, want["bob"], 1)
	require.True(t, want["alice"][0].Matches("secret"))
	fs = fs.Crash(7)
	require.NoError(t, c.Close())
	c = open()
	require.Equal(t, want, c.ScramUsers())
	gone := ScramSHA256
	cred, err := NewScramCredential(ScramSHA256, "x")
	require.NoError(t, err)
	for i := range 1000 { // enough changes for a snapshot
		refused, err := c.AlterScramCredentials(t.Context(), ScramChange{User: fmt.Sprint("u", i), Credential: cred})
		require.NoError(t, err)
		require.Empty(t, refused)
		_, err = c.AlterScramCredentials(t.Context(), ScramChange{User: fmt.Sprint("u", i), Delete: &gone})
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	c = open()
	defer c.Close()
	require.Equal(t, want, c.ScramUsers())
	_, known := c.ScramCredential(ScramSHA512, "bob")
	require.False(t, known)
	require.ErrorIs(t, c.SetPassword(t.Context(), "", "x"), ErrUnacceptableCredential)
	require.ErrorIs(t, c.SetPassword(t.Context(), "x", ""), ErrUnacceptableCredential)
	require.ErrorIs(t, c.SetPassword(t.Context(), "x", "y", 7), ErrUnsupportedMechanism)
}
