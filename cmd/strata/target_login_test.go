package main

import (
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/throwaway"
	"github.com/stratalog/strata/kafka"
)

// A files is a directory for the files of a test.
type files struct {
	*testing.T
	dir string
}

func (f files) put(name, text string) (path string) {
	path = filepath.Join(f.dir, name)
	require.NoError(f, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// certificate issues a certificate of the authority, and returns its file and its key's.
func (f files) certificate(a *throwaway.Authority, r throwaway.Request) (cert, key string) {
	c, err := a.Certificate(r)
	require.NoError(f, err)
	certPEM, keyPEM, err := throwaway.PEM(c)
	require.NoError(f, err)
	return f.put(r.Subject.CommonName+".crt", string(certPEM)), f.put(r.Subject.CommonName+".key", string(keyPEM))
}

// Checklist row C7.
func TestCommandsReachBrokersThatWantToKnowWhoComes(t *testing.T) {
	f := files{t, t.TempDir()}
	a, err := throwaway.New()
	require.NoError(t, err)
	cert, key := f.certificate(a, throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1"}})
	ca := f.put("ca.crt", string(a.PEM()))
	s := start(t, "--memory", "--tls-cert", cert, "--tls-key", key, "--users", f.put("users", "alice = se=cret\n"))
	list := func(args ...string) result {
		return strataRun(t, append([]string{"topics", "list", "-b", s.addr, "--timeout", "5s"}, args...)...)
	}
	t.Setenv("STRATA_PASSWORD", "se=cret")
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		r := list("--tls-ca", ca, "--user", "alice", "--sasl", mechanism)
		require.Equal(t, exitOK, r.code, r.err)
	}
	require.Equal(t, exitOK, list("--tls-insecure", "--user", "alice").code)
	r := list("--tls-ca", ca, "--user", "alice", "--tls-server-name", "elsewhere")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "elsewhere")
	r = list("--tls", "--user", "alice")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "--tls-ca")
	r = list()
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "--tls")
	r = list("--tls-ca", ca)
	require.Equal(t, exitFailed, r.code, r.err)
	require.NotContains(t, r.err, "se=cret")
	t.Setenv("STRATA_PASSWORD", "wrong")
	r = list("--tls-ca", ca, "--user", "alice")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "rejects user alice")
	require.NotContains(t, r.err, "wrong")

	t.Run("by a configuration file", func(t *testing.T) {
		t.Setenv("STRATA_PASSWORD", "")
		config := f.put("config", "# ours\nbootstrap = "+s.addr+"\ntls-ca="+ca+"\nuser = alice\npassword = se=cret\n")
		require.Equal(t, exitOK, strataRun(t, "topics", "list", "--config", config).code)
		t.Setenv(configEnv, config)
		require.Equal(t, exitOK, strataRun(t, "topics", "create", "orders").code)
		require.Contains(t, strataRun(t, "topics", "list").out, "orders: ")
		t.Setenv("STRATA_USER", "bob") // overrides the file
		require.Contains(t, strataRun(t, "topics", "list").err, "user bob")
		require.Equal(t, exitOK, strataRun(t, "topics", "list", "--user", "alice").code)
	})
}

func TestCommandsShowTheCertificateOfAClient(t *testing.T) {
	f := files{t, t.TempDir()}
	a, err := throwaway.New()
	require.NoError(t, err)
	ca := f.put("ca.crt", string(a.PEM()))
	cert, key := f.certificate(a, throwaway.Request{Subject: pkix.Name{CommonName: "broker"}, Hosts: []string{"127.0.0.1"}})
	s := start(t, "--memory", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca)
	cert, key = f.certificate(a, throwaway.Request{Subject: pkix.Name{CommonName: "alice"}})
	list := []string{"topics", "list", "-b", s.addr, "--timeout", "5s", "--tls-ca", ca}
	require.Equal(t, exitFailed, strataRun(t, list...).code)
	r := strataRun(t, append(list, "--tls-cert", cert, "--tls-key", key)...)
	require.Equal(t, exitOK, r.code, r.err)
}

func TestCommandsShowATokenOfAFile(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	defer c.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := kafka.NewServer(c, kafka.Config{Security: kafka.Security{SASL: &kafka.SASL{OAuthBearer: kafka.UnsecuredJWTForTests{}}}})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(1, ln) }()
	defer func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, kafka.ErrServerClosed)
	}()
	f := files{t, t.TempDir()}
	token := f.put("token", kafka.NewUnsecuredJWTForTests("alice", time.Now().Add(time.Hour))+"\n")
	list := []string{"topics", "list", "-b", ln.Addr().String(), "--timeout", "5s", "--sasl", "oauthbearer", "--token-file"}
	r := strataRun(t, append(list, token)...)
	require.Equal(t, exitOK, r.code, r.err)
	f.put("token", kafka.NewUnsecuredJWTForTests("alice", time.Now().Add(-time.Hour)))
	require.Equal(t, exitFailed, strataRun(t, append(list, token)...).code)
}

// Checklist row C7: every invalid setting is reported.
func TestSettingsThatMakeNoSenseAreMisuse(t *testing.T) {
	f := files{t, t.TempDir()}
	for want, args := range map[string][]string{
		"put the password in $STRATA_PASSWORD":   {"-b", "x:1", "--user", "alice"},
		"--tls-cert and --tls-key go together":   {"-b", "x:1", "--tls-cert", "x"},
		"must be plain, scram-sha-256":           {"-b", "x:1", "--sasl", "kerberos"},
		"--token-file is for --sasl oauthbearer": {"-b", "x:1", "--token-file", "x"},
		"needs --token-file":                     {"-b", "x:1", "--sasl", "oauthbearer"},
		"[dir user]":                             {"--dir", "x", "--user", "alice"},
		"line 2: must be name = value":           {"--config", f.put("a", "tls = true\nsecret\n")},
		"line 1: unknown setting dir":            {"--config", f.put("b", "dir = x\n")},
		"line 3: duplicate user":                 {"--config", f.put("c", "user = x\n\nuser = y\n")},
		`the configuration file's timeout: time: missing unit in duration "1"`: {"--config", f.put("d", "timeout = 1\n")},
	} {
		r := strataRun(t, append([]string{"topics", "list"}, args...)...)
		require.Equal(t, exitMisuse, r.code, r.err)
		require.Contains(t, r.err, want)
		require.NotContains(t, r.err, "secret")
	}
	for want, args := range map[string][]string{
		"has no certificate in PEM":  {"-b", "x:1", "--tls-ca", f.put("no.crt", "x")},
		"no such file or directory":  {"-b", "x:1", "--tls-ca", "/nowhere"},
		"configuration: open /nowhe": {"--config", "/nowhere"},
	} {
		r := strataRun(t, append([]string{"topics", "list"}, args...)...)
		require.Equal(t, exitFailed, r.code, r.err)
		require.Contains(t, r.err, want)
	}
}
