package image

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/metarecord"
)

// numbered returns a function that draws ids 1, 2, 3 ...
func numbered() func() metarecord.ID {
	n := uint64(0)
	return func() (id metarecord.ID) {
		n++
		binary.BigEndian.PutUint64(id[8:], n)
		return id
	}
}

func access(name string, o acl.Operation) acl.Entry {
	return acl.Entry{ResourceType: acl.Topic, ResourceName: name, PatternType: acl.Literal, Principal: "User:alice", Host: "*", Operation: o, Permission: acl.Allow}
}

func entriesOf(m *Image) []acl.Entry { return acl.Sorted(slices.Collect(m.AccessControl().All())) }

func makeACLs(t *testing.T, m *Image, next func() metarecord.ID, entries ...acl.Entry) {
	t.Helper()
	recs, err := m.CreateACLs(entries, next)
	require.NoError(t, err)
	applyAll(t, m, recs...)
	m.Publish(m.Version + int64(len(recs)))
}

// Random changes are made to an image and to a map of entries. Both agree, a published value never
// changes, and a snapshot restores all entries.
func TestAccessControlAgreesWithAMapOfEntries(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	m, next, want := New(), numbered(), map[acl.Entry]bool{}
	any := func() acl.Entry { return access(fmt.Sprint("t", r.IntN(4)), acl.Operation(3+r.IntN(3))) }
	for step := range 400 {
		before, had := m.AccessControl(), entriesOf(m)
		if r.IntN(3) > 0 {
			entries := []acl.Entry{any(), any()}
			makeACLs(t, m, next, entries...)
			want[entries[0]], want[entries[1]] = true, true
		} else {
			f := acl.Exactly(any())
			if f.Host = nil; r.IntN(4) == 0 {
				f = acl.Everything()
			}
			recs, found, err := m.DeleteACLs([]acl.Filter{f, f})
			require.NoError(t, err)
			require.Equal(t, found[0], found[1])
			require.Len(t, recs, len(found[0]))
			for e := range want {
				require.Equal(t, f.Matches(e), slices.Contains(found[0], e))
				if f.Matches(e) {
					delete(want, e)
				}
			}
			applyAll(t, m, recs...)
			m.Publish(m.Version + 1)
		}
		require.Len(t, entriesOf(m), len(want), "seed %d, step %d", seed, step)
		for _, e := range entriesOf(m) {
			require.True(t, want[e], "seed %d, step %d: %v", seed, step, e)
		}
		require.Equal(t, len(want) == 0, m.AccessControl() == nil)
		require.Equal(t, had, acl.Sorted(slices.Collect(before.All())), "what was published has changed")
		if !slices.Equal(had, entriesOf(m)) {
			require.NotSame(t, before, m.AccessControl())
		}
		again := New()
		applyAll(t, again, m.Snapshot(nil)...)
		again.Publish(m.Version)
		require.Equal(t, m, again)
	}
}

func TestEntriesThatThereAreAreNotMadeAgain(t *testing.T) {
	m, next := New(), numbered()
	read := access("orders", acl.Read)
	recs, err := m.CreateACLs([]acl.Entry{read, read}, next)
	require.NoError(t, err)
	require.Len(t, recs, 1)
	applyAll(t, m, recs...)
	recs, err = m.CreateACLs([]acl.Entry{read, access("orders", acl.Write)}, next)
	require.NoError(t, err)
	require.Len(t, recs, 1)
}

func TestAccessRecordsThatDoNotFitAreRefused(t *testing.T) {
	m := New()
	read := access("orders", acl.Read)
	makeACLs(t, m, numbered(), read)
	for name, rec := range map[string]metarecord.Record{
		"an id again":           accessRecord(metarecord.ID{15: 1}, access("orders", acl.Write)),
		"an entry again":        accessRecord(metarecord.ID{15: 2}, read),
		"an unknown operation":  accessRecord(metarecord.ID{15: 3}, access("orders", 99)),
		"removal of no such id": &metarecord.RemoveAccessControlEntry{ID: metarecord.ID{1}},
	} {
		require.Error(t, m.Apply(rec), name)
	}
	require.Equal(t, []acl.Entry{read}, entriesOf(m))
	require.Error(t, New().Apply(&metarecord.RemoveAccessControlEntry{}))
}

func TestAccessControlIsBounded(t *testing.T) {
	m, next := New(), numbered()
	var refused *PolicyError
	many := make([]acl.Entry, maxACLsAtOnce+1)
	for i := range many {
		many[i] = access(fmt.Sprint("t", i), acl.Read)
	}
	_, err := m.CreateACLs(many, next)
	require.ErrorAs(t, err, &refused)
	for round := range maxACLs / maxACLsAtOnce {
		for i := range many {
			many[i] = access(fmt.Sprint("t", round, "-", i), acl.Read)
		}
		makeACLs(t, m, next, many[1:]...)
	}
	_, err = m.CreateACLs([]acl.Entry{access("one too many", acl.Read)}, next)
	require.ErrorAs(t, err, &refused)
	_, _, err = m.DeleteACLs([]acl.Filter{acl.Everything()})
	require.ErrorAs(t, err, &refused)

	m = New()
	for i := range maxACLBytes / 30_000 {
		makeACLs(t, m, next, access(strings.Repeat("x", 29_985)+fmt.Sprintf("%04d", i), acl.Read))
	}
	_, err = m.CreateACLs([]acl.Entry{access(strings.Repeat("y", 30_000), acl.Read)}, next)
	require.ErrorAs(t, err, &refused)
	_, err = m.CreateACLs([]acl.Entry{access("y", acl.Read)}, next)
	require.NoError(t, err)
}
