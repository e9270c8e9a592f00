package acl

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntriesAreValidatedAsKafkaDoes(t *testing.T) {
	good := Entry{Topic, "orders", Literal, "User:alice", "*", Read, Allow}
	require.NoError(t, good.Validate())
	require.NoError(t, Entry{Cluster, ClusterName, Literal, "User:a:b", "*", All, Deny}.Validate())
	for reason, edit := range map[string]func(*Entry){
		"The only valid name for the CLUSTER resource is kafka-cluster":         func(e *Entry) { e.ResourceType = Cluster },
		"Invalid empty resource name":                                           func(e *Entry) { e.ResourceName = "" },
		"Invalid resourceType ANY":                                              func(e *Entry) { e.ResourceType = AnyResource },
		"Invalid resourceType UNKNOWN":                                          func(e *Entry) { e.ResourceType = 99 },
		"Invalid patternType MATCH":                                             func(e *Entry) { e.PatternType = Match },
		"Invalid patternType UNKNOWN":                                           func(e *Entry) { e.PatternType = -1 },
		"Invalid operation ANY":                                                 func(e *Entry) { e.Operation = AnyOperation },
		"Invalid operation UNKNOWN":                                             func(e *Entry) { e.Operation = 16 },
		"Invalid permissionType ANY":                                            func(e *Entry) { e.Permission = AnyPermission },
		"A name, principal or host has more than 32767 bytes":                   func(e *Entry) { e.Host = strings.Repeat("h", 1<<15) },
		"expected a string in format principalType:principalName but got alice": func(e *Entry) { e.Principal = "alice" },
	} {
		e := good
		edit(&e)
		err := e.Validate()
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, reason)
	}
	require.ErrorIs(t, Policy{SuperUsers: []string{"admin"}}.Validate(), ErrInvalid)
	require.NoError(t, Policy{SuperUsers: []string{"User:admin"}}.Validate())
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	for o := AnyOperation; o <= TwoPhaseCommit; o++ {
		got, err := ParseOperation(o.String())
		require.NoError(t, err)
		require.Equal(t, o, got)
	}
	r, err := ParseResourceType("transactionalId")
	require.NoError(t, err)
	require.Equal(t, TransactionalID, r)
	p, err := ParsePatternType("prefixed")
	require.NoError(t, err)
	require.Equal(t, Prefixed, p)
	perm, err := ParsePermission("Deny")
	require.NoError(t, err)
	require.Equal(t, Deny, perm)
	for _, bad := range []string{"", "unknown", "reads"} {
		_, err := ParseOperation(bad)
		require.ErrorIs(t, err, ErrInvalid)
	}
	require.Equal(t, "[READ DESCRIBE]", Operations(1<<Read|1<<Describe).String())
}

func TestFiltersMatchAsKafkaDoes(t *testing.T) {
	text := func(s string) *string { return &s }
	set := NewSet(
		Entry{Topic, "orders", Literal, "User:alice", "*", Read, Allow},
		Entry{Topic, "ord", Prefixed, "User:alice", "h", Write, Allow},
		Entry{Topic, "*", Literal, "User:*", "*", Describe, Deny},
		Entry{Group, "orders", Literal, "User:bob", "*", Read, Allow},
	)
	count := func(edit func(*Filter)) int {
		f := Everything()
		edit(&f)
		require.NoError(t, f.Validate())
		return len(set.Matching(f))
	}
	require.Equal(t, 4, count(func(f *Filter) {}))
	require.Equal(t, 3, count(func(f *Filter) { f.ResourceType = Topic }))
	require.Equal(t, 2, count(func(f *Filter) { f.ResourceName = text("orders") }))
	require.Equal(t, 3, count(func(f *Filter) { f.ResourceType, f.ResourceName, f.PatternType = Topic, text("orders"), Match }))
	require.Equal(t, 1, count(func(f *Filter) { f.ResourceName, f.PatternType = text("anything"), Match }))
	require.Equal(t, 4, count(func(f *Filter) { f.PatternType = Match }))
	require.Equal(t, 1, count(func(f *Filter) { f.PatternType = Prefixed }))
	require.Equal(t, 0, count(func(f *Filter) { f.ResourceName, f.PatternType = text("orders"), Prefixed }))
	require.Equal(t, 1, count(func(f *Filter) { f.Principal = text("User:*") }))
	require.Equal(t, 1, count(func(f *Filter) { f.Host = text("h") }))
	require.Equal(t, 2, count(func(f *Filter) { f.Operation = Read }))
	require.Equal(t, 1, count(func(f *Filter) { f.Permission = Deny }))
	for _, edit := range []func(*Filter){
		func(f *Filter) { f.ResourceType = 0 }, func(f *Filter) { f.PatternType = 5 }, func(f *Filter) { f.Operation = 99 }, func(f *Filter) { f.Permission = -1 },
	} {
		f := Everything()
		edit(&f)
		require.ErrorIs(t, f.Validate(), ErrInvalid)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		a, b := randomEntry(r), randomEntry(r)
		require.Equal(t, a == b, Exactly(a).Matches(b))
		require.True(t, Everything().Matches(a))
	}
}

func TestEntriesGivenTwiceCountOnce(t *testing.T) {
	e := Entry{Topic, "orders", Literal, "User:alice", "*", Read, Allow}
	require.Len(t, NewSet(e, e).Matching(Everything()), 1)
}
