package kafka

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
)

// withTokens is a server whose users may have tokens, with ACL entries.
func withTokens(t *testing.T, entries ...acl.Entry) *saslNetwork {
	n := newSASLNetwork(t, Config{DelegationTokens: DelegationTokens{Secret: "the cluster's"}, Authorization: Authorization{Enabled: true, SuperUsers: []string{"User:root"}}}, nil)
	require.NoError(t, n.cluster.SetPassword(t.Context(), "root", "root-secret"))
	require.NoError(t, n.cluster.SetPassword(t.Context(), "carol", "carol-secret"))
	if len(entries) > 0 {
		require.NoError(t, n.cluster.CreateACLs(t.Context(), entries...))
	}
	return n
}

// as returns a connection on which the user is authenticated.
func (n *saslNetwork) as(user string) *client {
	n.t.Helper()
	c := n.dial()
	require.Zero(n.t, asPlain(c, user, user+"-secret").ErrorCode)
	return c
}

// asScram authenticates by SCRAM and returns the first error code.
func asScram(c *client, mechanism string, auth scram.Auth) Code {
	m := auth.AsSha256Mechanism()
	if mechanism == "SCRAM-SHA-512" {
		m = auth.AsSha512Mechanism()
	}
	require.Zero(c.t, handshake(c, 1, mechanism).ErrorCode)
	session, first, err := m.Authenticate(context.Background(), "")
	require.NoError(c.t, err)
	resp := authenticate(c, string(first))
	for resp.ErrorCode == 0 {
		done, next, err := session.Challenge(resp.SASLAuthBytes)
		require.NoError(c.t, err)
		if done {
			return 0
		}
		resp = authenticate(c, string(next))
	}
	return Code(resp.ErrorCode)
}

// withToken authenticates by a token.
func withToken(c *client, mechanism, id string, hmac []byte) Code {
	return asScram(c, mechanism, scram.Auth{User: id, Pass: base64.StdEncoding.EncodeToString(hmac), IsToken: true})
}

func createToken(c *client, edit func(*kmsg.CreateDelegationTokenRequest)) *kmsg.CreateDelegationTokenResponse {
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.Version = 3
	if edit != nil {
		edit(req)
	}
	return c.ask(req).(*kmsg.CreateDelegationTokenResponse)
}

func renewToken(c *client, hmac []byte, d time.Duration) *kmsg.RenewDelegationTokenResponse {
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.Version, req.HMAC, req.RenewTimeMillis = 2, hmac, d.Milliseconds()
	return c.ask(req).(*kmsg.RenewDelegationTokenResponse)
}

func expireToken(c *client, hmac []byte, d time.Duration) *kmsg.ExpireDelegationTokenResponse {
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.Version, req.HMAC, req.ExpiryPeriodMillis = 2, hmac, d.Milliseconds()
	return c.ask(req).(*kmsg.ExpireDelegationTokenResponse)
}

// seenTokens returns the ids of the tokens that a client may see. Nil owners mean the tokens of
// all owners.
func seenTokens(c *client, owners []kmsg.DescribeDelegationTokenRequestOwner) (code Code, ids []string) {
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Version, req.Owners = 3, owners
	resp := c.ask(req).(*kmsg.DescribeDelegationTokenResponse)
	for _, d := range resp.TokenDetails {
		ids = append(ids, d.TokenID)
	}
	return Code(resp.ErrorCode), ids
}

func onBehalfOf(name string) func(*kmsg.CreateDelegationTokenRequest) {
	return func(r *kmsg.CreateDelegationTokenRequest) {
		r.OwnerPrincipalType, r.OwnerPrincipalName = kmsg.StringPtr("User"), &name
	}
}

// A token is created, used, renewed and expired.
func TestTokenStandsForItsOwnerUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := withTokens(t)
		alice := n.as("alice")
		begun := time.Now()
		made := createToken(alice, func(r *kmsg.CreateDelegationTokenRequest) {
			r.Renewers = []kmsg.CreateDelegationTokenRequestRenewer{{PrincipalType: "User", PrincipalName: "bob"}}
			r.MaxLifetimeMillis = (60 * time.Hour).Milliseconds()
		})
		require.Zero(t, made.ErrorCode)
		require.Equal(t, []string{"User", "alice", "User", "alice"}, []string{made.PrincipalType, made.PrincipalName, made.TokenRequesterPrincipalType, made.TokenRequesterPrincipalName})
		require.Equal(t, begun.Add(24*time.Hour).UnixMilli(), made.ExpiryTimestamp)
		require.Equal(t, begun.Add(60*time.Hour).UnixMilli(), made.MaxTimestamp)
		require.Len(t, made.HMAC, 64)

		for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			bearer := n.dial()
			require.Zero(t, withToken(bearer, m, made.TokenID, made.HMAC))
			require.True(t, serves(bearer))
			require.Equal(t, int16(DelegationTokenRequestNotAllowed), createToken(bearer, nil).ErrorCode, "a token gives no other one")
			require.Equal(t, int16(DelegationTokenRequestNotAllowed), renewToken(bearer, made.HMAC, 0).ErrorCode)
			code, _ := seenTokens(bearer, nil)
			require.Equal(t, DelegationTokenRequestNotAllowed, code)
			require.Equal(t, SASLAuthenticationFailed, withToken(n.dial(), m, made.TokenID, made.HMAC[1:]))
			require.Equal(t, SASLAuthenticationFailed, asScram(n.dial(), m, scram.Auth{User: made.TokenID, Pass: base64.StdEncoding.EncodeToString(made.HMAC)}), "the id of a token is no user")
		}

		time.Sleep(23 * time.Hour)
		alice, bob, carol := n.as("alice"), n.as("bob"), n.as("carol")
		at := time.Now()
		require.Equal(t, int16(DelegationTokenOwnerMismatch), renewToken(carol, made.HMAC, 0).ErrorCode)
		require.Equal(t, int16(DelegationTokenOwnerMismatch), expireToken(carol, made.HMAC, -1).ErrorCode)
		require.Equal(t, int16(DelegationTokenNotFound), renewToken(bob, []byte("another"), 0).ErrorCode)
		require.Equal(t, at.Add(24*time.Hour).UnixMilli(), renewToken(bob, made.HMAC, 99*time.Hour).ExpiryTimestamp, "a period at a time")
		require.Equal(t, at.Add(5*time.Hour).UnixMilli(), expireToken(bob, made.HMAC, 5*time.Hour).ExpiryTimestamp)
		require.Equal(t, at.Add(7*time.Minute).UnixMilli(), renewToken(alice, made.HMAC, 7*time.Minute).ExpiryTimestamp)

		bearer := n.dial()
		require.Zero(t, withToken(bearer, "SCRAM-SHA-512", made.TokenID, made.HMAC))
		time.Sleep(7*time.Minute + time.Second)
		bearer.send(kmsg.NewPtrApiVersionsRequest())
		bearer.closed() // the session expires with its token
		require.Equal(t, SASLAuthenticationFailed, withToken(n.dial(), "SCRAM-SHA-512", made.TokenID, made.HMAC), "it has expired")
		alice = n.as("alice")
		require.Equal(t, int16(DelegationTokenExpired), renewToken(alice, made.HMAC, 0).ErrorCode)
		_, ids := seenTokens(alice, nil)
		require.Empty(t, ids)

		next := createToken(alice, nil)
		require.Equal(t, int16(DelegationTokenNotFound), renewToken(alice, made.HMAC, 0).ErrorCode, "the next change has taken it away")
		require.Equal(t, time.Now().Add(7*24*time.Hour).UnixMilli(), next.MaxTimestamp)
		require.Equal(t, int64(-1), expireToken(alice, next.HMAC, -time.Millisecond).ExpiryTimestamp)
		require.Equal(t, SASLAuthenticationFailed, withToken(n.dial(), "SCRAM-SHA-256", next.TokenID, next.HMAC))
	})
}

func TestWhoMayHaveATokenForWhom(t *testing.T) {
	n := withTokens(t, acl.Entry{ResourceType: acl.User, ResourceName: "User:bob", PatternType: acl.Literal, Principal: "User:alice", Host: "*", Operation: acl.CreateTokens, Permission: acl.Allow})
	alice := n.as("alice")
	require.Equal(t, int16(DelegationTokenAuthorizationFailed), createToken(alice, onBehalfOf("carol")).ErrorCode)
	made := createToken(alice, onBehalfOf("bob"))
	require.Zero(t, made.ErrorCode)
	require.Equal(t, []string{"bob", "alice"}, []string{made.PrincipalName, made.TokenRequesterPrincipalName})
	require.Equal(t, int16(DelegationTokenOwnerMismatch), renewToken(alice, made.HMAC, 0).ErrorCode, "who asked for it is no renewer")
	require.Zero(t, renewToken(n.as("bob"), made.HMAC, 0).ErrorCode)
	for name, edit := range map[string]func(*kmsg.CreateDelegationTokenRequest){
		"owner":         func(r *kmsg.CreateDelegationTokenRequest) { onBehalfOf("bob")(r); *r.OwnerPrincipalType = "Robot" },
		"owner of none": func(r *kmsg.CreateDelegationTokenRequest) { onBehalfOf("bob")(r); r.OwnerPrincipalType = nil },
		"renewer": func(r *kmsg.CreateDelegationTokenRequest) {
			r.Renewers = []kmsg.CreateDelegationTokenRequestRenewer{{PrincipalType: "Robot", PrincipalName: "bob"}}
		},
	} {
		refused := createToken(n.as("root"), edit)
		require.Equal(t, int16(InvalidPrincipalType), refused.ErrorCode, name)
		require.Equal(t, int64(-1), refused.IssueTimestamp, name)
		require.Empty(t, refused.HMAC, name)
	}
	long := createToken(alice, func(r *kmsg.CreateDelegationTokenRequest) {
		r.Renewers = []kmsg.CreateDelegationTokenRequestRenewer{{PrincipalType: "User", PrincipalName: string(make([]byte, 65<<10))}}
	})
	require.Equal(t, int16(PolicyViolation), long.ErrorCode)
}

func TestWhoSeesWhichTokens(t *testing.T) {
	n := withTokens(t)
	ofAlice := createToken(n.as("alice"), func(r *kmsg.CreateDelegationTokenRequest) {
		r.Renewers = []kmsg.CreateDelegationTokenRequestRenewer{{PrincipalType: "User", PrincipalName: "bob"}}
	})
	ofBob := createToken(n.as("root"), onBehalfOf("bob"))
	require.Zero(t, ofAlice.ErrorCode+ofBob.ErrorCode)
	owner := func(name string) []kmsg.DescribeDelegationTokenRequestOwner {
		return []kmsg.DescribeDelegationTokenRequestOwner{{PrincipalType: "User", PrincipalName: name}}
	}
	for _, c := range []struct {
		user   string
		owners []kmsg.DescribeDelegationTokenRequestOwner
		want   []string
	}{
		{"alice", nil, []string{ofAlice.TokenID}},
		{"bob", nil, []string{ofAlice.TokenID, ofBob.TokenID}},
		{"bob", owner("alice"), []string{ofAlice.TokenID}},
		{"bob", owner("bob"), []string{ofAlice.TokenID, ofBob.TokenID}},
		{"root", owner("root"), []string{ofBob.TokenID}},
		{"root", []kmsg.DescribeDelegationTokenRequestOwner{}, nil},
		{"carol", nil, nil},
		{"carol", owner("alice"), nil},
	} {
		code, ids := seenTokens(n.as(c.user), c.owners)
		require.Zero(t, code)
		require.ElementsMatch(t, c.want, ids, "%s %v", c.user, c.owners)
	}
	for _, e := range []acl.Entry{
		{ResourceType: acl.DelegationToken, ResourceName: ofAlice.TokenID, Operation: acl.Describe},
		{ResourceType: acl.User, ResourceName: "User:bob", Operation: acl.DescribeTokens},
	} {
		e.PatternType, e.Principal, e.Host, e.Permission = acl.Literal, "User:carol", "*", acl.Allow
		require.NoError(t, n.cluster.CreateACLs(t.Context(), e))
	}
	_, ids := seenTokens(n.as("carol"), nil)
	require.ElementsMatch(t, []string{ofAlice.TokenID, ofBob.TokenID}, ids)
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Version = 3
	for _, d := range n.as("root").ask(req).(*kmsg.DescribeDelegationTokenResponse).TokenDetails {
		if d.TokenID == ofAlice.TokenID {
			require.Equal(t, ofAlice.HMAC, d.HMAC)
			require.Equal(t, ofAlice.ExpiryTimestamp, d.ExpiryTimestamp)
			require.Equal(t, "bob", d.Renewers[0].PrincipalName)
		}
	}
}

// Without authentication, and without a secret for tokens, the server answers requests for tokens
// with an error and accepts no token.
func TestThereAreNoTokensWithoutAuthenticationOrASecret(t *testing.T) {
	_, addr := serveCluster(t, withUsers(t), Config{DelegationTokens: DelegationTokens{Secret: "s"}})
	c := dial(t, addr)
	require.Equal(t, int16(DelegationTokenRequestNotAllowed), createToken(c, nil).ErrorCode)
	require.Equal(t, int64(-1), renewToken(c, nil, 0).ExpiryTimestamp)
	require.Equal(t, int16(DelegationTokenRequestNotAllowed), expireToken(c, nil, 0).ErrorCode)
	code, _ := seenTokens(c, nil)
	require.Equal(t, DelegationTokenRequestNotAllowed, code)

	n := newSASLNetwork(t, Config{}, nil)
	alice := n.as("alice")
	require.Equal(t, int16(DelegationTokenAuthDisabled), createToken(alice, nil).ErrorCode)
	require.Equal(t, int16(DelegationTokenAuthDisabled), renewToken(alice, nil, 0).ErrorCode)
	require.Equal(t, int16(DelegationTokenAuthDisabled), expireToken(alice, nil, 0).ErrorCode)
	code, _ = seenTokens(alice, nil)
	require.Equal(t, DelegationTokenAuthDisabled, code)
	now := time.Now()
	require.NoError(t, n.cluster.Backend().CreateDelegationToken(t.Context(), replication.DelegationToken{ID: "id", Owner: "User:alice", Requester: "User:alice", Issued: now, Max: now.Add(time.Hour), Expires: now.Add(time.Hour)}))
	require.Equal(t, SASLAuthenticationFailed, withToken(n.dial(), "SCRAM-SHA-256", "id", DelegationTokens{}.hmac("id")), "the secret is no empty one")

	ln, err := (&memnet.Network{}).Listen("broker.invalid:9092")
	require.NoError(t, err)
	require.ErrorIs(t, NewServer(withUsers(t), Config{DelegationTokens: DelegationTokens{MaxLifetime: -1}}).Serve(1, ln), ErrInvalidSecurity)
}

func TestClientsUseTokensAsUsersOfSCRAM(t *testing.T) {
	n := withTokens(t, acl.Entry{ResourceType: acl.Topic, ResourceName: "orders", PatternType: acl.Literal, Principal: "User:alice", Host: "*", Operation: acl.All, Permission: acl.Allow})
	made := createToken(n.as("alice"), nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers("broker.invalid:9092"), kgo.Dialer(n.network.Dial), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"),
		kgo.SASL(scram.Auth{User: made.TokenID, Pass: base64.StdEncoding.EncodeToString(made.HMAC), IsToken: true}.AsSha512Mechanism()))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr())
}
