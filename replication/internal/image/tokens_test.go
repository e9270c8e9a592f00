package image

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
)

var tokensBegin = time.UnixMilli(1_000_000)

// tokenFor returns a token that expires after a number of minutes. Its maximum lifetime is twice
// as long.
func tokenFor(id string, minutes int) Token {
	d := time.Duration(minutes) * time.Minute
	return Token{ID: id, Owner: "User:alice", Requester: "User:bob", Renewers: []string{"User:carol"}, Issued: tokensBegin, Max: tokensBegin.Add(2 * d), Expires: tokensBegin.Add(d)}
}

func create(t *testing.T, m *Image, token Token, now time.Time) {
	t.Helper()
	recs, err := m.CreateToken(token, now)
	require.NoError(t, err)
	replayAll(t, m, recs)
}

func tokenIDs(m *Image) (ids []string) {
	for t := range m.Tokens().All() {
		ids = append(ids, t.ID)
	}
	return ids
}

func TestTokensAreInSnapshots(t *testing.T) {
	m := New()
	require.Nil(t, m.Tokens())
	create(t, m, tokenFor("b", 10), tokensBegin)
	create(t, m, tokenFor("a", 20), tokensBegin)
	m.Publish(1)
	before := m.Tokens()
	again := New()
	replayAll(t, again, m.Snapshot(nil))
	require.Equal(t, slices.Collect(m.Tokens().All()), slices.Collect(again.Tokens().All()))
	require.Equal(t, m.Tokens().bytes, again.Tokens().bytes)

	for _, id := range []string{"a", "b"} {
		recs, err := m.AlterToken(id, time.Time{}, tokensBegin)
		require.NoError(t, err)
		replayAll(t, m, recs)
	}
	require.Nil(t, m.Tokens())
	require.Equal(t, 2, before.Len(), "what was read does not change")
}

func TestTokenExpiresNotAfterItsMaximum(t *testing.T) {
	m := New()
	create(t, m, tokenFor("a", 10), tokensBegin)
	for minutes, want := range map[int]int{5: 5, 20: 20, 21: 20} {
		recs, err := m.AlterToken("a", tokensBegin.Add(time.Duration(minutes)*time.Minute), tokensBegin)
		require.NoError(t, err)
		replayAll(t, m, recs)
		got, ok := m.Tokens().Get("a")
		require.True(t, ok)
		require.Equal(t, tokensBegin.Add(time.Duration(want)*time.Minute), got.Expires)
		require.Equal(t, []string{"User:carol"}, got.Renewers)
	}
	_, err := m.AlterToken("b", tokensBegin, tokensBegin)
	require.ErrorIs(t, err, ErrTokenNotFound)
	token := tokenFor("a", 10)
	for at, want := range map[time.Duration]bool{10 * time.Minute: true, 10*time.Minute + time.Millisecond: false} {
		require.Equal(t, want, token.Live(tokensBegin.Add(at)), at)
	}
}

// Every change of tokens removes the expired ones.
func TestExpiredTokensGoWithTheNextChange(t *testing.T) {
	m := New()
	for i := range 4 {
		create(t, m, tokenFor(fmt.Sprint(i), 10*(i+1)), tokensBegin)
	}
	create(t, m, tokenFor("new", 100), tokensBegin.Add(15*time.Minute))
	require.Equal(t, []string{"1", "2", "3", "new"}, tokenIDs(m))
	recs, err := m.AlterToken("1", tokensBegin.Add(20*time.Minute), tokensBegin.Add(35*time.Minute))
	require.NoError(t, err)
	replayAll(t, m, recs)
	require.Equal(t, []string{"1", "3", "new"}, tokenIDs(m), "not the one that was asked for")
	recs, err = m.AlterToken("1", time.Time{}, tokensBegin.Add(45*time.Minute))
	require.NoError(t, err)
	replayAll(t, m, recs) // each once
	require.Equal(t, []string{"new"}, tokenIDs(m))
	recs, err = m.AlterToken("new", time.Time{}, tokensBegin.Add(45*time.Minute))
	require.NoError(t, err)
	replayAll(t, m, recs)
	require.Empty(t, tokenIDs(m))

	for i := range maxForgotten + 1 {
		create(t, m, tokenFor(fmt.Sprint(i), 10), tokensBegin)
	}
	recs, err = m.CreateToken(tokenFor("new", 100), tokensBegin.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, recs, maxForgotten+1, "a change has its bounds")
}

func TestTokensAreBounded(t *testing.T) {
	m := New()
	create(t, m, tokenFor("a", 10), tokensBegin)
	_, err := m.CreateToken(tokenFor("a", 10), tokensBegin)
	require.ErrorIs(t, err, ErrDuplicateResource)
	var refused *PolicyError
	for name, edit := range map[string]func(*Token){
		"no id": func(t *Token) { t.ID = "" }, "no owner": func(t *Token) { t.Owner = "" }, "no requester": func(t *Token) { t.Requester = "" },
		"long": func(t *Token) { t.Renewers = []string{strings.Repeat("x", maxOneToken)} },
	} {
		token := tokenFor("b", 10)
		edit(&token)
		_, err := m.CreateToken(token, tokensBegin)
		require.ErrorAs(t, err, &refused, name)
	}
	long := []string{strings.Repeat("x", maxOneToken-100)}
	for i := 0; ; i++ {
		token := tokenFor(fmt.Sprint("long", i), 10)
		token.Renewers, token.Owner = long, fmt.Sprint("User:", i%3)
		recs, err := m.CreateToken(token, tokensBegin)
		if err != nil {
			require.ErrorAs(t, err, &refused)
			require.Greater(t, m.Tokens().bytes, maxTokenBytes-2*maxOneToken)
			break
		}
		require.Less(t, i, 1000)
		replayAll(t, m, recs)
	}
	m = New()
	for i := range maxTokens {
		require.NoError(t, m.Apply(tokenFor(fmt.Sprint(i), 10).Record()))
	}
	_, err = m.CreateToken(tokenFor("b", 10), tokensBegin)
	require.ErrorAs(t, err, &refused)
	_, err = m.CreateToken(tokenFor("b", 10), tokensBegin.Add(time.Hour))
	require.NoError(t, err, "those that have expired make room")
}

func TestOwnerHasHalfOfTheRoomForTokens(t *testing.T) {
	m := New()
	token := func(owner string, i int) Token {
		tok := tokenFor(fmt.Sprint(owner, i), 10)
		tok.Owner, tok.Renewers = owner, []string{strings.Repeat("x", maxOneToken-200)}
		return tok
	}
	var refused *PolicyError
	i := 0
	for ; ; i++ {
		recs, err := m.CreateToken(token("User:a", i), tokensBegin)
		if err != nil {
			require.ErrorAs(t, err, &refused)
			break
		}
		replayAll(t, m, recs)
	}
	require.InDelta(t, maxTokenBytes/2, m.Tokens().bytes, 2*maxOneToken)
	_, err := m.CreateToken(token("User:b", 0), tokensBegin)
	require.NoError(t, err)
	_, err = m.CreateToken(token("User:a", i), tokensBegin.Add(time.Hour))
	require.NoError(t, err, "expired tokens do not count")
}

func TestRecordsOfTokensThatDoNotFitAreRefused(t *testing.T) {
	m := New()
	require.Error(t, m.Apply(&metarecord.RemoveDelegationToken{TokenID: "a"}))
	for _, rec := range []*metarecord.DelegationToken{{Owner: "o", Requester: "r"}, {TokenID: "a", Requester: "r"}, {TokenID: "a", Owner: "o"}} {
		require.Error(t, m.Apply(rec))
	}
	require.Nil(t, m.Tokens())
}
