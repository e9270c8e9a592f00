package interop

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/interop/apache"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// A login is how a client of these tests connects, and its principal.
type login struct {
	addr           string
	mechanism      string // of SASL; "": none
	user, password string // with OAUTHBEARER the password is the token
	token          bool   // the user is the id of a delegation token, the password its HMAC
	ca             string // file of the authority that signed the broker's certificate; "": no TLS
	certificate    string // file of the client's certificate and its key; "": none
	topic, group   string
	writes         int // number of records it writes in sequence; above 10 they take 100 ms each
}

// The results of a login, independent of the client.
const (
	served           = "served"
	notAuthenticated = "not authenticated"
	notAuthorized    = "not authorized"
	notConnected     = "not connected" // the TLS handshake failed
)

// secureClients has a function for each client. It writes to the topic of a login, reads the
// records as a member of its group, commits, and returns the result.
var secureClients = map[string]func(t *testing.T, l login) string{}

// A secured is a broker with a listener for each way to authenticate. Clients of the plain
// listener are User:ANONYMOUS, a super user.
type secured struct {
	target
	sasl   string // SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
	short  string // the same, but clients authenticate again every three seconds
	mutual string // SSL, where clients show a certificate
	pki    pki
}

// A pki has the certificates of a test, in PEM files.
type pki struct {
	authority, other string // certificates of the broker's authority, and of an untrusted one
	broker           string
	alice, mallory   string // clients of the authority
	foreign          string // alice, signed by the other authority
}

const shortly = 3 * time.Second

func newPKI(t *testing.T) pki {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, parts ...[]byte) string {
		path := filepath.Join(dir, name+".pem")
		require.NoError(t, os.WriteFile(path, slices.Concat(parts...), 0o600))
		return path
	}
	issue := func(name string, a *throwaway.Authority, r throwaway.Request) string {
		c, err := a.Certificate(r)
		require.NoError(t, err)
		cert, key, err := throwaway.PEM(c)
		require.NoError(t, err)
		return file(name, key, cert)
	}
	ours, err := throwaway.New()
	require.NoError(t, err)
	other, err := throwaway.New()
	require.NoError(t, err)
	named := func(name string) throwaway.Request { return throwaway.Request{Subject: pkix.Name{CommonName: name}} }
	return pki{
		authority: file("authority", ours.PEM()),
		other:     file("other", other.PEM()),
		broker:    issue("broker", ours, throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1", "localhost"}}),
		alice:     issue("alice", ours, named("alice")),
		mallory:   issue("mallory", ours, named("mallory")),
		foreign:   issue("foreign", other, named("alice")),
	}
}

// tlsOf returns the TLS configuration of a Go client for a login.
func tlsOf(t *testing.T, l login) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	b, err := os.ReadFile(l.ca)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(b))
	cfg := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	if l.certificate != "" {
		c, err := tls.LoadX509KeyPair(l.certificate, l.certificate)
		require.NoError(t, err)
		// even if the broker's request does not list the certificate's authority
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
	}
	return cfg
}

// startSecuredKafka starts Apache Kafka with StandardAuthorizer.
func startSecuredKafka(t *testing.T) secured {
	t.Helper()
	s := secured{pki: newPKI(t)}
	settings := []string{
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS", "delegation.token.secret.key=secret",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + s.pki.broker,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + s.pki.authority,
		"listener.name.mutual.ssl.client.auth=required",
		fmt.Sprint("listener.name.short.connections.max.reauth.ms=", shortly.Milliseconds()),
	}
	const module = "org.apache.kafka.common.security."
	for _, name := range []string{"sasl", "short"} {
		at := "listener.name." + name + "."
		settings = append(settings,
			at+"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
			at+"plain.sasl.jaas.config="+module+`plain.PlainLoginModule required user_alice="secret" user_mallory="secret";`,
			at+"scram-sha-256.sasl.jaas.config="+module+"scram.ScramLoginModule required;",
			at+"scram-sha-512.sasl.jaas.config="+module+"scram.ScramLoginModule required;",
			at+"oauthbearer.sasl.jaas.config="+module+`oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`)
	}
	more := []apache.Listener{{Name: "SASL", Protocol: "SASL_SSL"}, {Name: "SHORT", Protocol: "SASL_SSL"}, {Name: "MUTUAL", Protocol: "SSL"}}
	b, err := kafkaKit(t).StartListening(within(t), t.TempDir(), more, settings...)
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	s.target = target{kind: "kafka", addr: b.Addr}
	s.sasl, s.short, s.mutual = more[0].Addr, more[1].Addr, more[2].Addr
	awaitCoordinators(t, s.target)
	s.prepare(t)
	return s
}

// startSecuredStrata serves a new directory with the same listeners.
func startSecuredStrata(t *testing.T) secured {
	t.Helper()
	s := secured{pki: newPKI(t)}
	authorized := func(cfg *kafka.Config) {
		cfg.Authorization = kafka.Authorization{Enabled: true, SuperUsers: []string{"User:ANONYMOUS"}}
		cfg.DelegationTokens.Secret = "secret"
	}
	served := serveStrata(t, 1, func(*strata.Config) {}, authorized)
	s.target = served.targets[0]
	certificate, err := tls.LoadX509KeyPair(s.pki.broker, s.pki.broker)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	b, err := os.ReadFile(s.pki.authority)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(b))
	sasl := func(reauth time.Duration) kafka.Security {
		return kafka.Security{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}, SASL: &kafka.SASL{
			Plain:       kafka.StaticPasswords(map[string]string{"alice": "secret", "mallory": "secret"}),
			Scram:       []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512},
			OAuthBearer: kafka.UnsecuredJWTForTests{},
			MaxReauth:   reauth,
		}}
	}
	mutual := kafka.Security{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}}
	listen := func(name string, how kafka.Security) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served.listen(&kafka.Listener{Listener: ln, Name: name, Security: how})
		return ln.Addr().String()
	}
	s.sasl, s.short, s.mutual = listen("SASL", sasl(0)), listen("SHORT", sasl(shortly)), listen("MUTUAL", mutual)
	s.prepare(t)
	return s
}

// prepare creates the users of SCRAM and the topic. alice may write to it and read it in groups
// that begin with "g"; mallory may only describe it.
func (s secured) prepare(t *testing.T) {
	t.Helper()
	adm := admin(t, s.target)
	var users []kadm.UpsertSCRAM
	for _, user := range []string{"alice", "mallory"} {
		for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
			users = append(users, kadm.UpsertSCRAM{User: user, Mechanism: mechanism, Iterations: 4096, Password: "secret"})
		}
	}
	for _, one := range users { // a user once in a request
		altered, err := adm.AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{one})
		require.NoError(t, err)
		require.NoError(t, altered.Error())
	}
	createNamed(t, s.target, "t", 1)
	for _, entries := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("t").Groups("g").ResourcePatternType(kadm.ACLPatternPrefixed).Allow("User:alice", "User:CN=alice").AllowHosts().Operations(kmsg.ACLOperationRead, kmsg.ACLOperationWrite),
		kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:mallory", "User:CN=mallory").AllowHosts().Operations(kmsg.ACLOperationDescribe),
	} {
		made, err := adm.CreateACLs(within(t), entries)
		require.NoError(t, err)
		for _, one := range made {
			require.NoError(t, one.Err)
		}
	}
	eventually(t, "the users and the entries are known", func() bool {
		described, err := adm.DescribeUserSCRAMs(within(t))
		if err != nil || len(described) != 2 {
			return false
		}
		known, err := adm.DescribeACLs(within(t), kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny))
		entries := 0
		for _, one := range known {
			entries += len(one.Described)
		}
		return err == nil && entries == 10
	})
}

// An expected is a login with its expected result.
type expected struct {
	login
	becomes string
}

// logins are the ways to connect, by name.
func (s secured) logins() map[string]expected {
	all := map[string]expected{}
	token := func(user string) string { return kafka.NewUnsecuredJWTForTests(user, time.Now().Add(time.Hour)) }
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} {
		right := login{addr: s.sasl, mechanism: mechanism, user: "alice", password: "secret", ca: s.pki.authority}
		wrong, unknown, mallory := right, right, right
		wrong.password, unknown.user, mallory.user = "guessed", "nobody", "mallory"
		if mechanism == "OAUTHBEARER" {
			right.password, mallory.password = token("alice"), token("mallory")
			wrong.password = kafka.NewUnsecuredJWTForTests("alice", time.Now().Add(-time.Hour))
		} else {
			all[mechanism+", unknown user"] = expected{unknown, notAuthenticated}
		}
		all[mechanism] = expected{right, served}
		all[mechanism+", wrong password"] = expected{wrong, notAuthenticated}
		all[mechanism+", few rights"] = expected{mallory, notAuthorized}
	}
	all["another authority"] = expected{login{addr: s.sasl, mechanism: "PLAIN", user: "alice", password: "secret", ca: s.pki.other}, notConnected}
	all["no TLS"] = expected{login{addr: s.sasl, mechanism: "PLAIN", user: "alice", password: "secret"}, notConnected}
	all["certificate"] = expected{login{addr: s.mutual, ca: s.pki.authority, certificate: s.pki.alice}, served}
	all["certificate, few rights"] = expected{login{addr: s.mutual, ca: s.pki.authority, certificate: s.pki.mallory}, notAuthorized}
	all["no certificate"] = expected{login{addr: s.mutual, ca: s.pki.authority}, notConnected}
	all["a foreign certificate"] = expected{login{addr: s.mutual, ca: s.pki.authority, certificate: s.pki.foreign}, notConnected}
	return all
}

// delegated returns the login of a token that alice created and owns.
func (s secured) delegated(t *testing.T) login {
	t.Helper()
	alice := login{addr: s.sasl, mechanism: "SCRAM-SHA-256", user: "alice", password: "secret", ca: s.pki.authority, topic: "t", group: fresh("g")}
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	made, err := req.RequestWith(within(t), franzAs(t, alice))
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(made.ErrorCode))
	alice.token, alice.user, alice.password = true, made.TokenID, base64.StdEncoding.EncodeToString(made.HMAC)
	return alice
}

// knowTokens are the clients that support delegation tokens. The others log in with the token's id
// as the name of a user, which does not exist.
var knowTokens = []string{"franz-go", "java"}

// TestSecuredKafka lets every client connect to a real broker in each way, to see that the
// expected results are Kafka's.
func TestSecuredKafka(t *testing.T) {
	connectInEveryWay(t, startSecuredKafka(t))
}

// TestSecuredStrata is the same for Strata.
func TestSecuredStrata(t *testing.T) {
	connectInEveryWay(t, startSecuredStrata(t))
}

func connectInEveryWay(t *testing.T, s secured) {
	ways := s.logins()
	token := s.delegated(t)
	wrong := token
	wrong.password = "guessed"
	ways["token"], ways["token, wrong password"] = expected{token, served}, expected{wrong, notAuthenticated}
	for _, client := range slices.Sorted(maps.Keys(secureClients)) {
		for _, name := range slices.Sorted(maps.Keys(ways)) {
			t.Run(client+"/"+strings.ReplaceAll(name, ", ", "-"), func(t *testing.T) {
				t.Parallel()
				way := ways[name]
				if way.token && !slices.Contains(knowTokens, client) {
					way.becomes = notAuthenticated
				}
				way.topic, way.group, way.writes = fresh("t"), fresh("g"), 3
				if way.becomes == notAuthorized {
					way.topic = "t" // for a client without Describe a topic does not exist
				} else {
					createNamed(t, s.target, way.topic, 1)
				}
				became := secureClients[client](t, way.login)
				require.Equal(t, way.becomes, became)
			})
		}
	}
}

// TestClientsAuthenticateAgainOnKafka has clients write for longer than their session lasts. Each
// authenticates again, or connects again, and loses no record (KIP-368).
func TestClientsAuthenticateAgainOnKafka(t *testing.T) {
	authenticateAgain(t, startSecuredKafka(t))
}

// TestClientsAuthenticateAgainOnStrata is the same for Strata.
func TestClientsAuthenticateAgainOnStrata(t *testing.T) {
	authenticateAgain(t, startSecuredStrata(t))
}

func authenticateAgain(t *testing.T, s secured) {
	for _, client := range slices.Sorted(maps.Keys(secureClients)) {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			l := login{addr: s.short, mechanism: "SCRAM-SHA-512", user: "alice", password: "secret", ca: s.pki.authority, topic: fresh("t"), group: fresh("g"), writes: 50}
			createNamed(t, s.target, l.topic, 1)
			require.Equal(t, served, secureClients[client](t, l))
		})
	}
}
