package acl

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLongTextIsRefusedInEveryField(t *testing.T) {
	build := func() Entry {
		return Entry{ResourceType: Topic, ResourceName: "t", PatternType: Literal, Principal: "User:a", Host: "*", Operation: Read, Permission: Allow}
	}
	for _, field := range []func(*Entry) *string{
		func(e *Entry) *string { return &e.ResourceName },
		func(e *Entry) *string { return &e.Principal },
		func(e *Entry) *string { return &e.Host },
	} {
		e := build()
		text := field(&e)
		*text += strings.Repeat("x", MaxText-len(*text))
		require.NoError(t, e.Validate())
		*text += "x"
		require.ErrorContains(t, e.Validate(), "more than")
	}
	for _, p := range []string{"", "a", ":", ":a", "User:"} {
		e := build()
		e.Principal = p
		require.ErrorContains(t, e.Validate(), "principalType:principalName", "%q", p)
	}
}

// Numbers come from the network: a number without meaning is rejected, or allows nothing.
func TestNumbersWithoutMeaningAllowNothing(t *testing.T) {
	every := Entry{ResourceType: Topic, ResourceName: "*", PatternType: Literal, Principal: "User:*", Host: "*", Operation: All, Permission: Allow}
	a := Policy{}.With(NewSet(every))
	client := Client{Principal: "User:a", Host: "10.0.0.1"}
	require.True(t, a.Allows(client, Read, Resource{Type: Topic, Name: "t"}))
	for _, n := range []int8{math.MinInt8, -1, 0, 100, math.MaxInt8} {
		r := Resource{Type: ResourceType(n), Name: "t"}
		require.False(t, a.Allows(client, Read, r), "resource type %d", n)
		require.Zero(t, a.Operations(client, r), "resource type %d", n)
		require.Zero(t, Supported(ResourceType(n)), "resource type %d", n)
		for _, set := range []func(*Entry){
			func(e *Entry) { e.ResourceType = ResourceType(n) },
			func(e *Entry) { e.PatternType = PatternType(n) },
			func(e *Entry) { e.Operation = Operation(n) },
			func(e *Entry) { e.Permission = Permission(n) },
		} {
			e := every
			set(&e)
			require.Error(t, e.Validate(), "%d", n)
			require.Contains(t, e.String(), "UNKNOWN", "%d", n)
		}
	}
}
