package acl

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed decides by the definition, with a walk over a list. Kafka: StandardAuthorizerData.
func listed(p Policy, entries []Entry, client Client, o Operation, r Resource) bool {
	for _, u := range p.SuperUsers {
		if u == client.Principal {
			return true
		}
	}
	about, allow := false, false
	for _, e := range entries {
		named := e.ResourceName == r.Name || e.ResourceName == "*"
		if e.PatternType == Prefixed {
			named = strings.HasPrefix(r.Name, e.ResourceName)
		}
		if e.ResourceType != r.Type || !named {
			continue
		}
		about = true
		if e.Principal != client.Principal && e.Principal != "User:*" || e.Host != client.Host && e.Host != "*" {
			continue
		}
		fits := e.Operation == o || e.Operation == All
		if e.Permission == Deny && fits {
			return false
		}
		implied := o == Describe && (e.Operation == Read || e.Operation == Write || e.Operation == Delete || e.Operation == Alter) ||
			o == DescribeConfigs && e.Operation == AlterConfigs
		allow = allow || e.Permission == Allow && (fits || implied)
	}
	return allow || !about && p.AllowEveryoneIfNoACL
}

// listedSome is Kafka's Authorizer.authorizeByResourceType, word by word.
func listedSome(p Policy, entries []Entry, client Client, o Operation, t ResourceType) bool {
	if listed(p, entries, client, o, Resource{t, "hardcode"}) {
		return true
	}
	var mine []Entry
	for _, e := range entries {
		if e.ResourceType == t && (e.Host == client.Host || e.Host == "*") && (e.Principal == client.Principal || e.Principal == "User:*") && (e.Operation == o || e.Operation == All) {
			mine = append(mine, e)
		}
	}
	has := func(perm Permission, kind PatternType, name string) bool {
		for _, e := range mine {
			if e.Permission == perm && e.PatternType == kind && e.ResourceName == name {
				return true
			}
		}
		return false
	}
	if has(Deny, Literal, "*") {
		return false
	}
	if has(Allow, Literal, "*") {
		return true
	}
	for _, e := range mine {
		if e.Permission != Allow || e.PatternType == Literal && has(Deny, Literal, e.ResourceName) {
			continue
		}
		dominated := false
		for i := range e.ResourceName {
			dominated = dominated || has(Deny, Prefixed, e.ResourceName[:i+1])
		}
		if !dominated {
			return true
		}
	}
	return false
}

var (
	someNames      = []string{"*", "a", "ab", "abc", "b", "bc", "*a", "hardcode", "h"}
	somePrincipals = []string{"User:alice", "User:bob", "User:*", "Group:alice"}
	someHosts      = []string{"*", "10.0.0.1", "10.0.0.2"}
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomEntry(r *rand.Rand) Entry {
	return Entry{
		ResourceType: pick(r, Topic, Topic, Group, TransactionalID), ResourceName: pick(r, someNames...), PatternType: pick(r, Literal, Prefixed),
		Principal: pick(r, somePrincipals...), Host: pick(r, someHosts...),
		Operation: pick(r, All, Read, Read, Read, Write, Create, Describe, AlterConfigs, DescribeConfigs, IdempotentWrite), Permission: pick(r, Deny, Allow),
	}
}

func TestAuthorizerAgreesWithAListWalk(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	yes := 0
	for round := range 400 {
		var entries []Entry
		for range r.IntN(12) {
			entries = append(entries, randomEntry(r))
		}
		policy := Policy{AllowEveryoneIfNoACL: r.IntN(2) == 0}
		if r.IntN(4) == 0 {
			policy.SuperUsers = []string{"User:bob"}
		}
		a := policy.With(NewSet(entries...))
		for range 200 {
			client := Client{pick(r, somePrincipals...), pick(r, someHosts...)}
			res := Resource{pick(r, Topic, Group, TransactionalID, Cluster), pick(r, someNames...)}
			o := pick(r, Read, Read, Write, Create, Describe, DescribeConfigs, IdempotentWrite, Alter)
			want := listed(policy, entries, client, o, res)
			if want {
				yes++
			}
			require.Equal(t, want, a.Allows(client, o, res), "seed %d, round %d: %v %v %v of %v", seed, round, client, o, res, entries)
			require.Equal(t, want && Supported(res.Type).Has(o), a.Operations(client, res).Has(o))
			some := listedSome(policy, entries, client, o, res.Type)
			require.Equal(t, some, a.AllowsSome(client, o, res.Type), "seed %d, round %d: %v %v on some %v of %v", seed, round, client, o, res.Type, entries)
		}
	}
	require.Greater(t, yes, 1000, "questions that are answered yes")
}

func TestRulesOfTheStandardAuthorizer(t *testing.T) {
	entry := func(kind PatternType, name, principal, host string, o Operation, p Permission) Entry {
		return Entry{Topic, name, kind, principal, host, o, p}
	}
	alice := Client{"User:alice", "10.0.0.1"}
	a := Policy{SuperUsers: []string{"User:admin"}}.With(NewSet(
		entry(Literal, "orders", "User:alice", "*", Read, Allow),
		entry(Literal, "configured", "User:alice", "*", AlterConfigs, Allow),
		entry(Prefixed, "app-", "User:*", "10.0.0.1", Write, Allow),
		entry(Literal, "app-secret", "User:alice", "*", Write, Deny),
		entry(Literal, "*", "User:bob", "*", All, Allow),
		entry(Literal, "closed", "User:*", "*", Read, Deny),
		entry(Literal, "closed", "User:alice", "*", Write, Allow),
	))
	for _, tc := range []struct {
		client Client
		o      Operation
		name   string
		want   bool
	}{
		{alice, Read, "orders", true},
		{alice, Describe, "orders", true}, // implied
		{alice, Write, "orders", false},
		{alice, Read, "orders-2", false}, // a literal name is no prefix
		{alice, DescribeConfigs, "configured", true},
		{alice, Describe, "configured", false},
		{alice, Write, "app-1", true},
		{Client{"User:carol", "10.0.0.1"}, Write, "app-1", true},
		{Client{"User:carol", "10.0.0.2"}, Write, "app-1", false},
		{alice, Write, "app-secret", false},   // a denial beats a permission by prefix
		{alice, Describe, "app-secret", true}, // Describe is not denied
		{Client{"User:bob", "x"}, Delete, "anything", true},
		{Client{"User:bob", "x"}, Read, "closed", false},
		{alice, Write, "closed", true},
		{alice, Describe, "closed", true}, // a denied Read denies no other operation
		{Client{"User:admin", "x"}, Read, "closed", true},
		{Client{"Group:alice", "10.0.0.9"}, Read, "orders", false},
	} {
		require.Equal(t, tc.want, a.Allows(tc.client, tc.o, Resource{Topic, tc.name}), "%+v", tc)
	}
	require.Equal(t, Supported(Topic), a.Operations(Client{"User:admin", "x"}, Resource{Topic, "closed"}))
	require.Zero(t, a.Operations(alice, Resource{Group, "orders"}), "an entry of a topic is about no group")
	denied := entry(Prefixed, "a", "User:dave", "*", Write, Deny)
	some := func(entries ...Entry) bool {
		return Policy{}.With(NewSet(entries...)).AllowsSome(Client{"User:dave", "x"}, Write, Topic)
	}
	require.True(t, some(entry(Literal, "abc", "User:dave", "*", Write, Allow)))
	require.False(t, some(denied, entry(Literal, "abc", "User:dave", "*", Write, Allow)), "a shorter prefix is denied")
	require.True(t, some(denied, entry(Literal, "b", "User:dave", "*", Write, Allow)))
	open := Policy{AllowEveryoneIfNoACL: true}.With(a.Set())
	require.True(t, open.Allows(alice, Read, Resource{Group, "g"}))
	require.False(t, open.Allows(Client{"User:carol", "x"}, Read, Resource{Topic, "orders"}), "entries are about it, for others")
}

func TestQuestionsDoNotAllocate(t *testing.T) {
	a := manyEntries(1000)
	client, r := Client{"User:u7", "10.0.0.1"}, Resource{Topic, "topic-7"}
	require.True(t, a.Allows(client, Write, r))
	require.Zero(t, testing.AllocsPerRun(100, func() { a.Allows(client, Write, r) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { a.Operations(client, Resource{Topic, "nobody's"}) }))
}

func manyEntries(n int) *Authorizer {
	var entries []Entry
	for i := range n {
		entries = append(entries,
			Entry{Topic, fmt.Sprint("topic-", i), Literal, fmt.Sprint("User:u", i), "*", Write, Allow},
			Entry{Topic, fmt.Sprint("app", i, "-"), Prefixed, fmt.Sprint("User:u", i), "*", All, Allow})
	}
	return Policy{SuperUsers: []string{"User:admin"}}.With(NewSet(entries...))
}

func BenchmarkAllows(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint("entries=", 2*n), func(b *testing.B) {
			a := manyEntries(n)
			client, r := Client{"User:u0", "10.0.0.1"}, Resource{Topic, "topic-0"}
			b.ReportAllocs()
			for b.Loop() {
				a.Allows(client, Write, r)
			}
		})
	}
}

// Java writes ::1 as 0:0:0:0:0:0:0:1, and so do Kafka's tools.
func TestEntryForAnIPv6AddressMatchesEveryFormOfIt(t *testing.T) {
	orders := Resource{Topic, "orders"}
	for _, tc := range []struct {
		entry, client string
		want          bool
	}{
		{"0:0:0:0:0:0:0:1", "::1", true},
		{"::1", "0:0:0:0:0:0:0:1", true},
		{"2001:DB8:0:0:0:0:0:0a", "2001:db8::a", true},
		{"fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0", true},
		{"fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth1", false},
		{"::ffff:10.0.0.7", "10.0.0.7", true},
		{"::ffff:10.0.0.7", "10.0.0.8", false},
		{"0:0:0:0:0:0:0:1", "::2", false},
		{"0:0:0:0:0:0:0:1", "127.0.0.1", false},
		{"10.0.0.7", "10.0.0.7", true},
		{"no:address", "no:address", true},
		{"no:address", "another:one", false},
	} {
		allow := Entry{Topic, "orders", Literal, "User:alice", "*", Read, Allow}
		for _, kind := range []PatternType{Literal, Prefixed} {
			deny := Entry{Topic, "orders", kind, "User:alice", tc.entry, Read, Deny}
			a := Policy{}.With(NewSet(allow, deny))
			client := Client{"User:alice", tc.client}
			require.Equal(t, !tc.want, a.Allows(client, Read, orders), "%+v", tc)
			require.Equal(t, !tc.want, a.AllowsSome(client, Read, Topic), "%+v", tc)
		}
	}
	a := Policy{}.With(NewSet(Entry{Topic, "orders", Literal, "User:*", "0:0:0:0:0:0:0:1", Read, Allow}))
	for _, host := range []string{"::1", "10.0.0.1"} {
		require.Zero(t, testing.AllocsPerRun(100, func() { a.Allows(Client{"User:alice", host}, Read, orders) }), host)
	}
}
