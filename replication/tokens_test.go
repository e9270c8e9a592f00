package replication

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Delegation tokens survive a power cut, in their last state.
func TestDelegationTokensAreKeptByTheCluster(t *testing.T) {
	fs := vfs.Mem()
	open := func() *Cluster {
		c, err := Open(Config{Dir: "data", FS: fs, Brokers: 3})
		require.NoError(t, err)
		return c
	}
	c := open()
	now := time.Now().Truncate(time.Millisecond)
	token := DelegationToken{ID: "id", Owner: "User:alice", Requester: "User:bob", Renewers: []string{"User:carol"}, Issued: now, Max: now.Add(2 * time.Hour), Expires: now.Add(time.Hour)}
	require.NoError(t, c.CreateDelegationToken(t.Context(), token))
	require.ErrorIs(t, c.CreateDelegationToken(t.Context(), token), ErrDuplicateResource)
	require.ErrorIs(t, c.CreateDelegationToken(t.Context(), DelegationToken{}), ErrPolicyViolation)
	gone := token
	gone.ID = "gone"
	require.NoError(t, c.CreateDelegationToken(t.Context(), gone))
	require.NoError(t, c.AlterDelegationToken(t.Context(), "gone", func(got DelegationToken) (time.Time, error) {
		require.Equal(t, gone.Expires.UnixMilli(), got.Expires.UnixMilli())
		return time.Time{}, nil
	}))
	require.ErrorIs(t, c.AlterDelegationToken(t.Context(), "gone", nil), ErrDelegationTokenNotFound)
	no := errors.New("no")
	require.ErrorIs(t, c.AlterDelegationToken(t.Context(), "id", func(DelegationToken) (time.Time, error) { return time.Time{}, no }), no)
	require.NoError(t, c.AlterDelegationToken(t.Context(), "id", func(DelegationToken) (time.Time, error) { return now.Add(5 * time.Hour), nil }))

	fs = fs.Crash(7)
	require.NoError(t, c.Close())
	c = open()
	defer c.Close()
	all := slices.Collect(c.DelegationTokens().All())
	require.Len(t, all, 1)
	require.Equal(t, token.Max.UnixMilli(), all[0].Expires.UnixMilli())
	require.Equal(t, []string{"id", "User:alice", "User:bob", "User:carol"}, []string{all[0].ID, all[0].Owner, all[0].Requester, all[0].Renewers[0]})
	_, ok := c.DelegationTokens().Get("gone")
	require.False(t, ok)
}
