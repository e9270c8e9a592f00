package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func TestPrincipalIsWrittenAndReadAsKafkaDoes(t *testing.T) {
	for s, want := range map[string]Principal{
		"User:alice":           {Type: "User", Name: "alice"},
		"User:CN=a,OU=b:c":     {Type: "User", Name: "CN=a,OU=b:c"},
		"User:*":               {Type: "User", Name: "*"},
		"Group: with spaces  ": {Type: "Group", Name: " with spaces  "},
	} {
		p, err := ParsePrincipal(s)
		require.NoError(t, err)
		require.Equal(t, want, p)
		require.Equal(t, s, p.String())
	}
	for _, s := range []string{"", "alice", ":alice", "User:", ":"} {
		_, err := ParsePrincipal(s)
		require.ErrorIs(t, err, ErrMalformedPrincipal, "%q", s)
	}
	token := Principal{Type: "User", Name: "alice", TokenAuthenticated: true}
	require.True(t, token.Is(Principal{Type: "User", Name: "alice"}))
	require.False(t, token.Is(Principal{Type: "Group", Name: "alice"}))
	require.False(t, token.Is(Principal{Type: "User", Name: "bob"}))
}

// withPrincipals serves a cluster. Its function seen returns the principal of each ApiVersions
// request, and of each Fetch at its beginning and at its end.
func withPrincipals(t *testing.T) (addr string, theConn func() *conn, seen func() []string) {
	var mu sync.Mutex
	var principals []string
	note := func(c *call) {
		mu.Lock()
		defer mu.Unlock()
		principals = append(principals, c.principal.String())
	}
	s, addr := serve(t, Config{VersionCaps: map[int16]int16{int16(Fetch): 18}}) // a table of its own
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	versions, fetch := s.apis[int16(ApiVersions)], s.apis[int16(Fetch)]
	serveVersions, try, serveFetch := versions.serve, fetch.try, fetch.serve
	versions.serve = func(c *call, req kmsg.Request) kmsg.Response {
		note(c)
		return serveVersions(c, req)
	}
	fetch.try = func(c *call, req kmsg.Request) (kmsg.Response, bool) {
		note(c)
		return try(c, req)
	}
	fetch.serve = func(c *call, req kmsg.Request) kmsg.Response {
		defer note(c)
		return serveFetch(c, req)
	}
	theConn = func() (found *conn) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			found = c
		}
		return found
	}
	return addr, theConn, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), principals...)
	}
}

func TestConnectionActsForAnonymousUntilItIsAuthenticated(t *testing.T) {
	addr, theConn, seen := withPrincipals(t)
	c := dial(t, addr)
	c.ask(kmsg.NewPtrApiVersionsRequest())
	require.Equal(t, []string{"User:ANONYMOUS"}, seen())
	theConn().setPrincipal(Principal{Type: PrincipalTypeUser, Name: "alice"})
	c.ask(kmsg.NewPtrApiVersionsRequest())
	require.Equal(t, []string{"User:ANONYMOUS", "User:alice"}, seen())
}

func TestRequestKeepsThePrincipalThatItCameWith(t *testing.T) {
	addr, theConn, seen := withPrincipals(t)
	c := dial(t, addr)
	c.ask(kmsg.NewPtrApiVersionsRequest())
	theConn().setPrincipal(Principal{Type: PrincipalTypeUser, Name: "alice"})
	fetch := want(12, "orders", 0)
	fetch.MinBytes, fetch.MaxWaitMillis = 1, 200
	sent := c.send(fetch)
	require.Eventually(t, func() bool { return len(seen()) == 2 }, 10*time.Second, time.Millisecond)
	theConn().setPrincipal(Principal{Type: PrincipalTypeUser, Name: "bob"})
	c.receive(fetch, sent)
	c.ask(kmsg.NewPtrApiVersionsRequest())
	require.Equal(t, []string{"User:ANONYMOUS", "User:alice", "User:alice", "User:bob"}, seen())
}
