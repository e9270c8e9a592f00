package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/throwaway"
)

func TestServeAuthenticatesTheUsersOfAFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	a, err := throwaway.New()
	require.NoError(t, err)
	cert, err := a.Certificate(throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1"}})
	require.NoError(t, err)
	certPEM, keyPEM, err := throwaway.PEM(cert)
	require.NoError(t, err)
	s := start(t, "--memory", "--tls-cert", put("cert", certPEM), "--tls-key", put("key", keyPEM), "--users", put("users", []byte("# users\nalice = se=cret\n")))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(a.PEM()))
	try := func(password string) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), kgo.SASL(saslplain.Auth{User: "alice", Pass: password}.AsMechanism()))
		require.NoError(t, err)
		defer cl.Close()
		return cl.Ping(t.Context())
	}
	require.NoError(t, try("se=cret"))
	require.Error(t, try("wrong"))
}

func TestUsersOfAFileAreThoseOfTheCluster(t *testing.T) {
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer cluster.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	var u *fileUsers
	restart := func() {
		u, err = newFileUsers(file, dir)
		require.NoError(t, err)
	}
	restart()
	apply := func(text string) error {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return u.apply(t.Context(), cluster)
	}
	require.NoError(t, cluster.SetPassword(t.Context(), "other", "x"))
	require.NoError(t, apply("alice=a\nbob=b\n"))
	users := cluster.ScramUsers()
	require.Len(t, users, 3)
	require.NoError(t, apply("bob=b\nalice=a\n"))
	require.Equal(t, users, cluster.ScramUsers(), "what has not changed is left alone")
	for _, bad := range []string{"alice", "=x", "alice=", "a=b\na=c"} {
		require.Error(t, apply(bad))
		require.Equal(t, users, cluster.ScramUsers())
	}
	for _, none := range []string{"", "# alice=a\n"} {
		require.ErrorContains(t, apply(none), file+": the file has no users, so its 2 earlier users are kept")
		require.Equal(t, users, cluster.ScramUsers())
	}
	require.NoError(t, apply("bob=c\n"))
	users = cluster.ScramUsers()
	require.Len(t, users, 2, "alice is gone, and who is of no file stays")
	require.True(t, users["bob"][0].Matches("c"))

	require.NoError(t, apply("bob=c\ncarol \"c\"=d\n"))
	restart()
	require.NoError(t, apply("bob=c\n"))
	require.Equal(t, users, cluster.ScramUsers(), "taken out while nobody served")
	restart()
	require.NoError(t, cluster.SetPassword(t.Context(), "made by hand", "x"))
	require.NoError(t, apply("bob=c\n"))
	require.Len(t, cluster.ScramUsers(), 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, usersOfFile), []byte("bob\n"), 0o600))
	_, err = newFileUsers(file, dir)
	require.ErrorContains(t, err, usersOfFile)
	for _, o := range []securityOptions{{cert: "x"}, {key: "x"}, {clientCA: "x"}, {cert: "/nowhere", key: "/nowhere"}} {
		_, err := o.security(nil)
		require.Error(t, err)
	}
}

// An empty users file, such as one being rewritten, locks out no user.
func TestServeKeepsUsersWhenTheirFileIsEmpty(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte("alice=alice-pw\n"), 0o600))
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer cluster.Close()
	u, err := newFileUsers(file, "")
	require.NoError(t, err)
	require.NoError(t, u.apply(t.Context(), cluster))
	require.NoError(t, os.Truncate(file, 0))
	require.ErrorContains(t, u.apply(t.Context(), cluster), "the file has no users")
	require.Contains(t, cluster.ScramUsers(), "alice")
	require.NoError(t, os.WriteFile(file, []byte("bob=bob-pw\n"), 0o600))
	require.NoError(t, u.apply(t.Context(), cluster))
	require.NotContains(t, cluster.ScramUsers(), "alice")
}

func TestSecretsThatEveryUserOfTheMachineCanReadAreWarnedOf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such permissions")
	}
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	open, closed, secret := put("open", "alice=alice-pw\n", 0o644), put("closed", "alice=alice-pw\n", 0o640), put("secret", "s", 0o604)
	var logged bytes.Buffer
	(&securityOptions{users: closed, key: closed}).warn(slog.New(slog.NewTextHandler(&logged, nil)))
	require.Empty(t, logged.String())
	s := start(t, "--memory", "--users", open, "--token-secret", secret)
	r := command(t, "", "topics", "list", "-b", s.addr, "--user", "alice", "--config", put("config", "password = alice-pw\n", 0o644))
	require.Equal(t, exitOK, r.code)
	require.Equal(t, "strata: every user of this machine can read the password in "+filepath.Join(dir, "config")+": chmod o-r\n", r.err)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitOK, s.wait(t))
	for flag, file := range map[string]string{"--users": open, "--token-secret": secret} {
		require.Contains(t, s.errs.String(), `level=WARN msg="every user of this machine can read a file with secrets: chmod o-r" flag=`+flag+" file="+file)
	}
}

// A certificate for localhost fits a listener that was given as localhost, not as 127.0.0.1.
func TestClientsAreToldTheHostThatWasTyped(t *testing.T) {
	f := files{t, t.TempDir()}
	a, err := throwaway.New()
	require.NoError(t, err)
	ca := f.put("ca.crt", string(a.PEM()))
	serveAt := func(host string, certHosts ...string) (errs string) {
		cert, key := f.certificate(a, throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: certHosts})
		s := start(t, "--memory", "--listen", net.JoinHostPort(host, "0"), "--tls-cert", cert, "--tls-key", key, "--allow-public")
		told := host
		if host == "0.0.0.0" {
			told = "localhost"
		}
		require.Equal(t, told, strings.Split(s.addr, ":")[0], s.ready)
		if certHosts[0] == told {
			// The request goes to the advertised address of the controller.
			r := command(t, "", "topics", "create", "orders", "--tls-ca", ca, "-b", s.addr)
			require.Equal(t, exitOK, r.code, r.err)
		}
		require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
		require.Equal(t, exitOK, s.wait(t))
		return s.errs.String()
	}
	require.Empty(t, serveAt("localhost", "localhost"))
	require.Empty(t, serveAt("127.0.0.1", "127.0.0.1"))
	require.Empty(t, serveAt("0.0.0.0", "localhost"))
	require.Contains(t, serveAt("127.0.0.1", "localhost"), `msg="clients will refuse the certificate at the address that they are told" broker=1 listener=SSL host=127.0.0.1 error="x509:`)
	require.Contains(t, serveAt("localhost", "127.0.0.1"), "host=localhost error=")
}

func TestServeGivesTokensUnderTheSecretOfAFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	users, secret := put("users", "alice=secret\n"), put("tokens", "of the cluster\n")
	var s *process
	restart := func(secret string) {
		if s != nil {
			require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
			require.Equal(t, exitOK, s.wait(t))
		}
		s = start(t, "--dir", filepath.Join(dir, "data"), "--users", users, "--token-secret", secret)
	}
	restart(secret)
	as := func(m sasl.Mechanism) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.SASL(m))
		require.NoError(t, err)
		t.Cleanup(cl.Close)
		return cl
	}
	made, err := kmsg.NewPtrCreateDelegationTokenRequest().RequestWith(t.Context(), as(saslplain.Auth{User: "alice", Pass: "secret"}.AsMechanism()))
	require.NoError(t, err)
	require.Zero(t, made.ErrorCode)
	token := scram.Auth{User: made.TokenID, Pass: base64.StdEncoding.EncodeToString(made.HMAC), IsToken: true}.AsSha256Mechanism()
	require.NoError(t, as(token).Ping(t.Context()))
	restart(secret)
	require.NoError(t, as(token).Ping(t.Context()), "it is in the directory, and counts after a restart")
	restart(put("other", "another"))
	require.Error(t, as(token).Ping(t.Context()), "under another secret it is another one")

	for _, o := range []securityOptions{{tokens: secret}, {users: users, tokens: filepath.Join(dir, "none")}, {users: users, tokens: put("empty", " \n")}} {
		_, err := o.delegation()
		require.Error(t, err)
	}
}

// A mistyped super user would lock out the intended one.
func TestSuperUsersThatNobodyCanBeAreRefused(t *testing.T) {
	for list, want := range map[string][]string{
		"User:admin":                            {"User:admin"},
		" User:alice, User:admin ":              {"User:alice", "User:admin"},
		"User:alice,User:admin":                 {"User:alice", "User:admin"},
		"User:alice;User:admin":                 {"User:alice", "User:admin"},
		"User:OU=dev,CN=alice ; User:CN=bob,O=": {"User:OU=dev,CN=alice", "User:CN=bob,O="},
	} {
		got, err := parseSuperUsers(list)
		require.NoError(t, err, list)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "admin", "user:admin", "User:", "User:*", "User:alice,User:*", "User:alice,admin", "User:alice; admin", "Group:x"} {
		r := command(t, "", "serve", "--memory", "--authorize", "--super-users", bad)
		require.Equal(t, exitMisuse, r.code, bad)
		require.Contains(t, r.err, "--super-users")
	}
}

func TestServeWithoutAPlaceOrWithFilesThatAreNotThereIsMisuse(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	for says, args := range map[string][]string{
		"--users " + gone + ": no such file":   {"--memory", "--users", gone},
		"--tls-key " + gone + ": no such file": {"--memory", "--tls-cert", os.DevNull, "--tls-key", gone},
		"give either --dir or --memory":        {"--memory=false"},
	} {
		r := command(t, "", append([]string{"serve"}, args...)...)
		require.Equal(t, exitMisuse, r.code, args)
		require.Contains(t, r.err, says)
	}
}
