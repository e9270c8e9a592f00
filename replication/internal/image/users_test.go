package image

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/scram"
)

func decoy(user string, s scram.Shape) scram.Credential {
	return scram.SHA256.Decoy([]byte("secret"), user, s)
}

func replayAll(t *testing.T, m *Image, recs []metarecord.Record) {
	t.Helper()
	for _, rec := range recs {
		again, err := metarecord.Parse(metarecord.Append(nil, rec))
		require.NoError(t, err)
		require.NoError(t, m.Apply(again))
	}
}

func TestUsersAreInSnapshots(t *testing.T) {
	m := New()
	one := decoy("a", scram.Shape{SaltBytes: 10, Iterations: 4096})
	two := decoy("b", scram.Shape{SaltBytes: 26, Base36: true, Iterations: 8192})
	recs, refused := m.AlterScram([]ScramChange{{User: "a", Credential: one}, {User: "b", Credential: two}})
	require.Empty(t, refused)
	replayAll(t, m, recs)
	m.Publish(1)
	before := m.Users()
	again := New()
	replayAll(t, again, m.Snapshot(nil))
	require.Equal(t, m.Users(), again.Users())
	for chance, want := range map[uint64]scram.Shape{0: one.Shape(), 1: two.Shape(), 2: one.Shape()} {
		require.Equal(t, want, again.Users().Shape(chance))
	}

	gone := scram.SHA256
	recs, refused = m.AlterScram([]ScramChange{{User: "a", Delete: &gone}, {User: "b", Credential: decoy("b2", one.Shape())}})
	require.Empty(t, refused)
	replayAll(t, m, recs)
	require.Equal(t, []ScramKey{{"b", scram.SHA256}}, m.Users().All())
	require.Equal(t, one.Shape(), m.Users().Shape(0), "the shape of b's new one")
	require.Len(t, m.Users().shapes, 1)
	require.Len(t, before.All(), 2, "what was read does not change")
	require.Equal(t, scram.DefaultShape, New().Users().Shape(7))
}

func TestUsersAreCopiedOnceForAChange(t *testing.T) {
	m := New()
	set := func(user string) *Users {
		recs, refused := m.AlterScram([]ScramChange{{User: user, Credential: decoy(user, scram.DefaultShape)}})
		require.Empty(t, refused)
		replayAll(t, m, recs)
		return m.Users()
	}
	first := set("a")
	require.Same(t, first, set("b"))
	m.Publish(1)
	require.NotSame(t, first, set("c"))
	require.Len(t, first.All(), 2, "a published value has changed")
	require.Same(t, m.Users(), set("d"))
}

func TestRecordsOfUsersThatDoNotFitAreRefused(t *testing.T) {
	good := metarecord.UserScramCredential{Name: "a", Mechanism: 1, Salt: []byte{1}, StoredKey: make([]byte, 32), ServerKey: make([]byte, 32), Iterations: 4096}
	for name, edit := range map[string]func(*metarecord.UserScramCredential){
		"no name": func(u *metarecord.UserScramCredential) { u.Name = "" }, "no salt": func(u *metarecord.UserScramCredential) { u.Salt = nil }, "key": func(u *metarecord.UserScramCredential) { u.StoredKey = make([]byte, 31) },
		"server key": func(u *metarecord.UserScramCredential) { u.ServerKey = nil }, "iterations": func(u *metarecord.UserScramCredential) { u.Iterations = 0 },
	} {
		m, rec := New(), good
		edit(&rec)
		require.Error(t, m.Apply(&rec), name)
		require.Nil(t, m.Users(), name)
	}
	later := good
	later.Mechanism = 3
	require.ErrorIs(t, New().Apply(&later), ErrLaterRecord)
	require.Error(t, New().Apply(&metarecord.RemoveUserScramCredential{Name: "a", Mechanism: 1}))
}
