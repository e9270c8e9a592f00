package kafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/replication"
)

// Checklist row A5: guesses take all the turns for password checks. A user that has logged in with
// this password before does not wait; a client that guesses it waits.
func TestWhoHasLoggedInDoesNotWaitBehindGuesses(t *testing.T) {
	cluster := withUsers(t)
	p := newClusterPasswords(cluster.Backend())
	says := func(want bool, user, password, why string) {
		t.Helper()
		got, err := p.check(t.Context(), user, password)
		require.NoError(t, err)
		require.Equal(t, want, got, why)
	}
	busy, cancel := context.WithCancel(t.Context())
	cancel()
	waits := func(user, password, why string) {
		t.Helper()
		_, err := p.check(busy, user, password)
		require.ErrorIs(t, err, context.Canceled, why)
	}
	passes := func(user, password string) {
		t.Helper()
		got, err := p.check(busy, user, password)
		require.NoError(t, err)
		require.True(t, got, "it needs no turn")
	}
	guess := func() {
		for range cap(p.slots) {
			p.slots <- struct{}{}
		}
	}
	end := func() {
		for range cap(p.slots) {
			<-p.slots
		}
	}
	says(true, "alice", "alice-secret", "the first time")
	says(false, "bob", "guess", "a wrong password")
	says(false, "carol", "guess", "nobody")

	guess()
	passes("alice", "alice-secret")
	waits("alice", "guess", "another password")
	waits("bob", "bob-secret", "who has not logged in")
	waits("bob", "alice-secret", "the password of another user")
	waits("bob", "guess", "a password that was refused")
	waits("carol", "guess", "a user that there is not")
	require.NoError(t, cluster.SetPassword(t.Context(), "alice", "new-secret"))
	waits("alice", "alice-secret", "a password that was changed")
	end()
	says(false, "alice", "alice-secret", "a password that was changed")
	says(true, "alice", "new-secret", "the new one")
	guess()
	passes("alice", "new-secret")
	for _, m := range bothScram {
		refused, err := cluster.Backend().AlterScramCredentials(t.Context(), replication.ScramChange{User: "alice", Delete: &m})
		require.NoError(t, err)
		require.Empty(t, refused)
	}
	waits("alice", "new-secret", "a user that was removed")
	end()
	says(false, "alice", "new-secret", "a user that was removed")
}

// Checklist row A5.
func TestABoundedNumberOfUsersIsLetInWithoutACheck(t *testing.T) {
	p := newClusterPasswords(withUsers(t).Backend())
	for i := range maxVerified + 100 {
		p.remember(fmt.Sprint(i), verifiedPassword{})
	}
	require.Len(t, p.verified, maxVerified)
	require.Contains(t, p.verified, fmt.Sprint(maxVerified+99))
}
