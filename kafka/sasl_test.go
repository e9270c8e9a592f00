package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/replication"
)

var bothScram = []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512}

// withUsers opens a cluster with users alice and bob. A password is the user's name and "-secret".
func withUsers(t testing.TB) *strata.Cluster {
	t.Helper()
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	for _, user := range []string{"alice", "bob"} {
		require.NoError(t, cluster.SetPassword(t.Context(), user, user+"-secret"))
	}
	return cluster
}

func everyMechanism(cluster *strata.Cluster) *SASL {
	return &SASL{Plain: ClusterPasswords(cluster), Scram: bothScram, OAuthBearer: UnsecuredJWTForTests{}}
}

// A saslNetwork is a server with SASL on a network in memory.
type saslNetwork struct {
	t       testing.TB
	s       *Server
	network *memnet.Network
	cluster *strata.Cluster
}

func newSASLNetwork(t testing.TB, cfg Config, edit func(*SASL)) *saslNetwork {
	t.Helper()
	n := &saslNetwork{t: t, network: &memnet.Network{}, cluster: withUsers(t)}
	sasl := everyMechanism(n.cluster)
	if edit != nil {
		edit(sasl)
	}
	cfg.Security.SASL = sasl
	ln, err := n.network.Listen("broker.invalid:9092")
	require.NoError(t, err)
	n.s = NewServer(n.cluster, cfg)
	ended := make(chan error, 1)
	go func() { ended <- n.s.Serve(1, ln) }()
	t.Cleanup(func() {
		require.NoError(t, n.s.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
	return n
}

func (n *saslNetwork) dial() *client {
	n.t.Helper()
	nc, err := n.network.Dial(context.Background(), "tcp", "broker.invalid:9092")
	require.NoError(n.t, err)
	n.t.Cleanup(func() { nc.Close() })
	return &client{t: n.t, nc: nc}
}

func handshake(c *client, version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return c.ask(req).(*kmsg.SASLHandshakeResponse)
}

func authenticate(c *client, token string) *kmsg.SASLAuthenticateResponse {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(token)
	return c.ask(req).(*kmsg.SASLAuthenticateResponse)
}

// asPlain authenticates by PLAIN.
func asPlain(c *client, user, password string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	require.Zero(c.t, handshake(c, 1, "PLAIN").ErrorCode)
	return authenticate(c, "\x00"+user+"\x00"+password)
}

func serves(c *client) bool {
	return len(askVersions(c).ApiKeys) > 10
}

func TestEveryMechanismAuthenticatesClients(t *testing.T) {
	cluster := withUsers(t)
	a := authority(t)
	for protocol, security := range map[Protocol]Security{SASLPlaintext: {SASL: everyMechanism(cluster)}, SASLSSL: {SASL: everyMechanism(cluster), TLS: serverTLS(t, a, tls.NoClientCert)}} {
		require.Equal(t, protocol, security.Protocol())
		s, addr := serveCluster(t, cluster, Config{Security: security})
		for name, m := range map[string]kgosasl.Mechanism{
			"PLAIN":         plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism(),
			"SCRAM-SHA-256": scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha256Mechanism(),
			"SCRAM-SHA-512": scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha512Mechanism(),
			"OAUTHBEARER":   oauth.Auth{Token: NewUnsecuredJWTForTests("alice", time.Now().Add(time.Hour)), Extensions: map[string]string{"key": "value"}}.AsMechanism(),
		} {
			opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.SASL(m), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders")}
			if security.TLS != nil {
				opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: a.Pool()}))
			}
			cl, err := kgo.NewClient(opts...)
			require.NoError(t, err)
			require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(name)).FirstErr(), "%s %s", protocol, name)
			for _, p := range principals(s) {
				require.Equal(t, "User:alice", p)
			}
			cl.Close()
			require.Eventually(t, func() bool { return len(principals(s)) == 0 }, 10*time.Second, time.Millisecond)
		}
	}
}

// Neither the answer nor its time shows whether the user exists.
func TestWrongPasswordsAndUnknownUsersAreRefusedAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, nil)
		for _, user := range []string{"alice", "nobody"} {
			start := time.Now()
			c := n.dial()
			got := asPlain(c, user, "wrong")
			require.Equal(t, SASLAuthenticationFailed, Code(got.ErrorCode))
			require.Equal(t, "Authentication failed: Invalid username or password", *got.ErrorMessage)
			require.Equal(t, 100*time.Millisecond, time.Since(start))
			c.closed()

			for _, m := range bothScram {
				c := n.dial()
				require.Zero(t, handshake(c, 1, m.String()).ErrorCode)
				challenge := authenticate(c, "n,,n="+user+",r=nonce")
				require.Zero(t, challenge.ErrorCode)
				require.Regexp(t, `^r=nonce[A-Z2-7]{26},s=[A-Za-z0-9+/]{32},i=4096$`, string(challenge.SASLAuthBytes))
				nonce, _, _ := strings.Cut(string(challenge.SASLAuthBytes), ",")
				start := time.Now()
				got := authenticate(c, "c=biws,"+nonce+",p="+strings.Repeat("AAAA", m.Size()/3)+map[int]string{32: "AAA=", 64: "AA=="}[m.Size()])
				require.Equal(t, SASLAuthenticationFailed, Code(got.ErrorCode))
				require.Equal(t, "Authentication failed during authentication due to invalid credentials with SASL mechanism "+m.String(), *got.ErrorMessage)
				require.Equal(t, 100*time.Millisecond, time.Since(start))
				c.closed()
			}
		}
		salt := func(user string) string {
			c := n.dial()
			handshake(c, 1, "SCRAM-SHA-256")
			_, s, _ := strings.Cut(string(authenticate(c, "n,,n="+user+",r=nonce").SASLAuthBytes), ",")
			return s
		}
		require.Equal(t, salt("nobody"), salt("nobody"), "as it is for users")
		require.NotEqual(t, salt("nobody"), salt("somebody"))
	})
}

func TestNothingIsServedBeforeAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, nil)
		for _, api := range apis {
			if api.key == ApiVersions || api.key == SaslHandshake {
				continue
			}
			for _, before := range []func(c *client){func(*client) {}, func(c *client) { askVersions(c) }} {
				c := n.dial()
				before(c)
				if api.key == SaslAuthenticate && c.next == 1 {
					continue // it is not its turn, after versions
				}
				req := filledRequest(api.key, api.max)
				req.SetVersion(api.max)
				c.send(req)
				c.closed()
			}
		}
		c := n.dial()
		require.True(t, serves(c))
		c.send(kmsg.NewPtrApiVersionsRequest())
		c.closed()
	})
}

// TestRequestsThatComeInsteadOfATokenAreIllegal sends requests of all APIs where the mechanism
// waits for the client's token.
func TestRequestsThatComeInsteadOfATokenAreIllegal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, nil)
		for _, api := range apis {
			if api.key == SaslAuthenticate || n.s.apis[int16(api.key)] == nil {
				continue
			}
			for version := api.min; version <= api.max; version++ {
				req := filledRequest(api.key, version)
				req.SetVersion(version)
				if p, ok := req.(*kmsg.ProduceRequest); ok {
					p.Acks = -1
				}
				c := n.dial()
				handshake(c, 1, "PLAIN")
				start := time.Now()
				codes := codesOf(reflect.ValueOf(c.ask(req)))
				for _, code := range codes {
					require.Contains(t, []Code{0, IllegalSASLState}, code, "%v %d", api.key, version)
				}
				// older answers have no field for an error
				if api.key != DescribeLogDirs || version >= 3 {
					require.Contains(t, codes, IllegalSASLState, "%v %d", api.key, version)
				}
				c.closed()
				require.Equal(t, 100*time.Millisecond, time.Since(start), "as after any failure")
			}
		}
		synctest.Wait()
		require.Empty(t, principals(n.s))
		for what, req := range map[string]kmsg.Request{"it has no answer": &kmsg.ProduceRequest{Version: 9}, "an unknown version": &kmsg.MetadataRequest{Version: 100}} {
			c := n.dial()
			handshake(c, 1, "PLAIN")
			t.Log(what)
			c.send(req)
			c.closed()
		}
	})
}

// codesOf returns all error codes of an answer.
func codesOf(v reflect.Value) (codes []Code) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return codesOf(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			codes = append(codes, codesOf(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if strings.HasSuffix(v.Type().Field(i).Name, "ErrorCode") && v.Field(i).Kind() == reflect.Int16 {
				codes = append(codes, Code(v.Field(i).Int()))
			} else if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "UnknownTags" {
				codes = append(codes, codesOf(v.Field(i))...)
			}
		}
	}
	return codes
}

func TestMechanismsThatAreNotOfferedAreRefusedWithThoseThatAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, func(s *SASL) { s.OAuthBearer, s.FailureDelay = nil, 3*time.Second })
		for _, m := range []string{"GSSAPI", "OAUTHBEARER", "plain", ""} {
			start := time.Now()
			c := n.dial()
			got := handshake(c, 1, m)
			require.Equal(t, UnsupportedSASLMechanism, Code(got.ErrorCode))
			require.Equal(t, []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, got.SupportedMechanisms)
			c.closed()
			require.Equal(t, 3*time.Second, time.Since(start), "not because it is idle")
		}
	})
}

func TestHandshakesOutOfTurnAreIllegal(t *testing.T) {
	_, addr := serve(t, Config{}) // no SASL
	c := dial(t, addr)
	require.Equal(t, IllegalSASLState, Code(handshake(c, 1, "PLAIN").ErrorCode))
	require.Equal(t, IllegalSASLState, Code(authenticate(c, "x").ErrorCode))
	require.True(t, serves(c))

	n := newSASLNetwork(t, Config{}, nil)
	c = n.dial()
	require.Zero(t, asPlain(c, "alice", "alice-secret").ErrorCode)
	require.Equal(t, IllegalSASLState, Code(handshake(c, 1, "PLAIN").ErrorCode), "there is no end of the session")
	require.Equal(t, IllegalSASLState, Code(authenticate(c, "x").ErrorCode))
	require.True(t, serves(c))

	c = n.dial()
	handshake(c, 1, "PLAIN")
	require.Equal(t, IllegalSASLState, Code(askVersions(c).ErrorCode))
	c.closed()
	c = n.dial()
	handshake(c, 1, "PLAIN")
	require.Equal(t, IllegalSASLState, Code(handshake(c, 1, "PLAIN").ErrorCode))
	c.closed()
}

// The same requests get the same results, whether a client waits for each answer or sends all at
// once. Its principal is the same too.
func TestRequestsSentAtOnceGetTheVerdictsOfThoseSentOneByOne(t *testing.T) {
	const rounds, length = 60, 7
	synctest.Test(t, func(t *testing.T) {
		for _, reauth := range []time.Duration{0, time.Hour} {
			n := newSASLNetwork(t, Config{}, func(s *SASL) { s.MaxReauth, s.FailureDelay = reauth, time.Millisecond })
			rng := rand.New(rand.NewPCG(1, uint64(reauth)))
			for range rounds {
				known := rng.IntN(3) > 0
				var all [][]byte
				for i := range length {
					all = append(all, kmsg.NewRequestFormatter().AppendRequest(nil, saslRequest(rng), int32(i)))
				}
				told := func(together bool) (answers [][]byte, who string) {
					c := n.dial()
					defer c.nc.Close()
					if known {
						require.Zero(t, asPlain(c, "alice", "alice-secret").ErrorCode)
						time.Sleep(1100 * time.Millisecond) // the least time before another authentication
					}
					if together {
						_, err := c.nc.Write(bytes.Join(all, nil))
						require.NoError(t, err)
					}
					for _, one := range all {
						if !together {
							c.nc.Write(one) // the connection may be closed
						}
						var size [4]byte
						if _, err := io.ReadFull(c.nc, size[:]); err != nil {
							return append(answers, nil), ""
						}
						answer := make([]byte, binary.BigEndian.Uint32(size[:]))
						_, err := io.ReadFull(c.nc, answer)
						require.NoError(t, err)
						answers = append(answers, answer)
					}
					synctest.Wait()
					n.s.mu.Lock()
					defer n.s.mu.Unlock()
					for conn := range n.s.conns {
						who += conn.principal().String()
					}
					return answers, who
				}
				want, who := told(false)
				synctest.Wait()
				got, pipelined := told(true)
				require.Equal(t, want, got)
				require.Equal(t, who, pipelined)
				if known && who != "" {
					require.Equal(t, "User:alice", who)
				}
				synctest.Wait()
			}
		}
	})
}

// saslRequest is a random request, most often of a handshake or an authentication.
func saslRequest(rng *rand.Rand) kmsg.Request {
	switch rng.IntN(6) {
	case 0, 1:
		return &kmsg.SASLHandshakeRequest{Version: 1, Mechanism: "PLAIN"}
	case 2, 3:
		user := []string{"alice", "bob"}[rng.IntN(2)]
		return &kmsg.SASLAuthenticateRequest{Version: 2, SASLAuthBytes: []byte("\x00" + user + "\x00" + user + "-secret")}
	case 4:
		return &kmsg.ApiVersionsRequest{Version: 2}
	}
	return &kmsg.MetadataRequest{Version: 9, Topics: []kmsg.MetadataRequestTopic{}}
}

// After SaslHandshake version 0 tokens come without request headers.
func TestTokensComeBareAfterTheFirstVersionOfTheHandshake(t *testing.T) {
	n := newSASLNetwork(t, Config{}, nil)
	raw := func(c *client, token string) {
		_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
		require.NoError(t, err)
	}
	c := n.dial()
	require.Zero(t, handshake(c, 0, "PLAIN").ErrorCode)
	raw(c, "\x00alice\x00alice-secret")
	require.Empty(t, c.frame())
	require.True(t, serves(c))
	require.Equal(t, []string{"User:alice"}, principals(n.s))
	c.nc.Close()

	c = n.dial()
	require.Zero(t, handshake(c, 0, "PLAIN").ErrorCode)
	raw(c, "\x00alice\x00wrong")
	c.closed()
	c = n.dial()
	require.Zero(t, handshake(c, 0, "SCRAM-SHA-256").ErrorCode)
	raw(c, "n,,n=alice,r=x")
	require.True(t, bytes.HasPrefix(c.frame(), []byte("r=x")))
	raw(c, "")
	c.closed()
}

func TestRequestsBeforeAuthenticationAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, func(s *SASL) { s.MaxReceiveBytes = 1000 })
		for _, version := range []int16{0, 1} {
			c, start := n.dial(), time.Now()
			handshake(c, version, "PLAIN")
			_, err := c.nc.Write([]byte{0, 0, 3, 233, 0, 36, 0, 1})
			require.NoError(t, err)
			c.closed()
			require.Zero(t, time.Since(start), "not because the rest does not come")
		}
		c := n.dial()
		asPlain(c, "alice", "alice-secret")
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 9, []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(strings.Repeat("x", 2000))}}
		require.NotZero(t, c.ask(req).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	})
}

func TestAuthenticationIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{Limits: Limits{FirstRequest: 7 * time.Second}}, nil)
		for _, before := range []func(c *client){func(c *client) { askVersions(c) }, func(c *client) { handshake(c, 1, "SCRAM-SHA-256") }, func(c *client) { handshake(c, 0, "PLAIN") },
			func(c *client) { handshake(c, 1, "SCRAM-SHA-256"); authenticate(c, "n,,n=alice,r=x") }} {
			start := time.Now()
			c := n.dial()
			before(c)
			_, err := io.ReadAll(c.nc)
			require.NoError(t, err)
			require.Equal(t, 7*time.Second, time.Since(start))
		}
		c := n.dial()
		asPlain(c, "alice", "alice-secret")
		time.Sleep(time.Minute)
		require.True(t, serves(c), "that is over once the client is authenticated")
	})
}

func TestWhoGuessesPasswordsIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, func(s *SASL) { s.FailureDelay = time.Second })
		var wg sync.WaitGroup
		start := time.Now()
		const attempts = 15 // ten of them at once
		for range attempts {
			wg.Go(func() {
				c := n.dial()
				require.Equal(t, SASLAuthenticationFailed, Code(asPlain(c, "alice", "guess").ErrorCode))
			})
			synctest.Wait() // one after another
		}
		wg.Wait()
		// the wait for a turn and the delay of the last attempt
		require.Equal(t, (attempts-10)*time.Second, time.Since(start))
		c := n.dial()
		start = time.Now()
		require.Zero(t, asPlain(c, "bob", "bob-secret").ErrorCode)
		require.Zero(t, time.Since(start), "others are not held up")
	})
}

func TestSessionsEndUnlessTheClientAuthenticatesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSASLNetwork(t, Config{}, func(s *SASL) { s.MaxReauth = time.Minute })
		c := n.dial()
		require.EqualValues(t, 60_000, asPlain(c, "alice", "alice-secret").SessionLifetimeMillis)
		time.Sleep(50 * time.Second)
		require.True(t, serves(c))
		require.EqualValues(t, 60_000, asPlain(c, "alice", "alice-secret").SessionLifetimeMillis)
		time.Sleep(50 * time.Second)
		require.True(t, serves(c))
		time.Sleep(11 * time.Second)
		c.send(kmsg.NewPtrApiVersionsRequest())
		c.closed()

		c = n.dial()
		require.Zero(t, asPlain(c, "alice", "alice-secret").ErrorCode)
		time.Sleep(2 * time.Second)
		got := asPlain(c, "bob", "bob-secret")
		require.Equal(t, SASLAuthenticationFailed, Code(got.ErrorCode))
		require.Equal(t, "Cannot change principals during re-authentication from User.alice: User.bob", *got.ErrorMessage)
		c.closed()

		// a token expires before the reauthentication is due
		c = n.dial()
		require.Zero(t, handshake(c, 1, "OAUTHBEARER").ErrorCode)
		require.EqualValues(t, 10_000, authenticate(c, "n,,\x01auth=Bearer "+NewUnsecuredJWTForTests("carol", time.Now().Add(10*time.Second))+"\x01\x01").SessionLifetimeMillis)
		time.Sleep(11 * time.Second)
		c.send(kmsg.NewPtrApiVersionsRequest())
		c.closed()
	})
}

func TestBearerTokensAreValidated(t *testing.T) {
	n := newSASLNetwork(t, Config{}, nil)
	good := NewUnsecuredJWTForTests("carol", time.Now().Add(time.Hour))
	say := func(authzid, token string) *kmsg.SASLAuthenticateResponse {
		c := n.dial()
		require.Zero(t, handshake(c, 1, "OAUTHBEARER").ErrorCode)
		got := authenticate(c, "n,"+authzid+",\x01auth=Bearer "+token+"\x01\x01")
		if len(got.SASLAuthBytes) > 0 {
			require.Equal(t, `{"status":"invalid_token"}`, string(got.SASLAuthBytes))
			return authenticate(c, "\x01")
		}
		return got
	}
	require.Zero(t, say("", good).ErrorCode)
	require.Zero(t, say("a=carol", good).ErrorCode)
	require.Contains(t, *say("a=alice", good).ErrorMessage, "different from the token's principal name (carol)")
	for name, token := range map[string]string{
		"expired": NewUnsecuredJWTForTests("carol", time.Now().Add(-time.Second)), "no user": NewUnsecuredJWTForTests("", time.Now().Add(time.Hour)),
		"signed": good + "c2ln", "another algorithm": "eyJhbGciOiJIUzI1NiJ9" + good[strings.Index(good, "."):], "no token": "x", "no parts": "..", "no json": "eA.eA.",
	} {
		got := say("", token)
		require.Equal(t, SASLAuthenticationFailed, Code(got.ErrorCode), name)
		require.Equal(t, `{"status":"invalid_token"}`, *got.ErrorMessage, name)
	}
}

// A connection may end after each byte. The server keeps none of its memory and authenticates no
// user.
func TestExchangesThatAreCutShortLeaveNothingBehind(t *testing.T) {
	n := newSASLNetwork(t, Config{}, nil)
	var all []byte
	for _, req := range []kmsg.Request{&kmsg.ApiVersionsRequest{Version: 2}, &kmsg.SASLHandshakeRequest{Version: 1, Mechanism: "PLAIN"}, &kmsg.SASLAuthenticateRequest{Version: 1, SASLAuthBytes: []byte("\x00alice\x00alice-secret")}} {
		all = kmsg.NewRequestFormatter().AppendRequest(all, req, 1)
	}
	for i := range all {
		c := n.dial()
		_, err := c.nc.Write(all[:i])
		require.NoError(t, err)
		c.nc.(*memnet.Conn).CloseWrite()
		_, err = io.Copy(io.Discard, c.nc)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(principals(n.s)) == 0 }, 10*time.Second, time.Millisecond)
	require.True(t, whole(n.s), "all memory is given back")
}

func TestLogsNameWhoAuthenticatesAndHoldNoSecrets(t *testing.T) {
	var mu sync.Mutex
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := newSASLNetwork(t, Config{Logger: logger}, nil)
	require.Zero(t, asPlain(n.dial(), "alice", "alice-secret").ErrorCode)
	require.NotZero(t, asPlain(n.dial(), "alice", "wrong-secret").ErrorCode)
	c := n.dial()
	handshake(c, 1, "OAUTHBEARER")
	token := NewUnsecuredJWTForTests("carol", time.Now().Add(time.Hour))
	require.Zero(t, authenticate(c, "n,,\x01auth=Bearer "+token+"\x01\x01").ErrorCode)
	c = n.dial()
	handshake(c, 1, "SCRAM-SHA-256")
	require.NotZero(t, authenticate(c, "n,,n=alice-secret,x").ErrorCode)
	mu.Lock()
	defer mu.Unlock()
	text := logged.String()
	require.Contains(t, text, "principal=User:alice")
	require.Contains(t, text, "principal=User:carol")
	require.Contains(t, text, "authentication failed")
	for _, secret := range []string{"alice-secret", "wrong-secret", token} {
		require.NotContains(t, text, secret)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSASLThatContradictsItselfIsRefused(t *testing.T) {
	for name, bad := range map[string]*SASL{
		"no mechanism": {}, "unknown": {Scram: []replication.ScramMechanism{3}}, "twice": {Scram: []replication.ScramMechanism{1, 1}}, "negative": {Scram: bothScram, MaxReauth: -1},
	} {
		s, _ := serve(t, Config{})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.ErrorIs(t, s.Serve(1, &Listener{Listener: ln, Security: Security{SASL: bad}}), ErrInvalidSecurity, name)
	}
	s, _ := serve(t, Config{})
	require.ErrorIs(t, s.Serve(1, &Listener{Listener: publicListener(), Security: Security{SASL: &SASL{Scram: bothScram}}}), io.ErrUnexpectedEOF, "a public address")
}

func TestStaticPasswords(t *testing.T) {
	users := map[string]string{"alice": "secret", "empty": ""}
	check := StaticPasswords(users)
	users["alice"] = "changed"
	for _, tc := range []struct {
		user, password string
		want           bool
	}{{"alice", "secret", true}, {"alice", "changed", false}, {"alice", "", false}, {"empty", "", false}, {"nobody", "", false}, {"", "secret", false}} {
		ok, err := check(t.Context(), tc.user, tc.password)
		require.NoError(t, err)
		require.Equal(t, tc.want, ok, tc)
	}
}
