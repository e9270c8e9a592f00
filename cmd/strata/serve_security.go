package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// securityOptions say how clients of `strata serve` prove who they are.
type securityOptions struct {
	cert, key, clientCA, users, tokens string
}

func (o *securityOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.cert, "tls-cert", "", "serve TLS: `file` of the certificate in PEM, with those behind it. Files are read again when they change")
	f.StringVar(&o.key, "tls-key", "", "`file` of the certificate's key in PEM")
	f.StringVar(&o.clientCA, "tls-client-ca", "", "`file` of the authorities whose certificates clients must show, in PEM; a client is then who its certificate names")
	f.StringVar(&o.users, "users", "", "clients have to authenticate, by SASL PLAIN or SCRAM: `file` with a line name=password for each user, # for comments. They become users of the cluster, and those that the file no longer has are taken away, when it serves again and on SIGHUP")
	f.StringVar(&o.tokens, "token-secret", "", "clients that have authenticated may have delegation tokens: `file` with the secret that the tokens' passwords follow from, the same at each start")
}

// delegation returns what the tokens of clients follow from. The file's content is the secret, but
// for space around it.
func (o *securityOptions) delegation() (t kafka.DelegationTokens, err error) {
	if o.tokens == "" {
		return t, nil
	}
	if o.users == "" {
		return t, misuse("--token-secret says nothing without --users: tokens are used by SASL")
	}
	b, err := os.ReadFile(o.tokens)
	if err != nil {
		return t, err
	}
	if t.Secret = strings.TrimSpace(string(b)); t.Secret == "" {
		return t, fmt.Errorf("%s: there is no secret in it", o.tokens)
	}
	return t, nil
}

// check refuses files that are not there.
func (o *securityOptions) check() error {
	for _, f := range []struct{ flag, name string }{{"tls-cert", o.cert}, {"tls-key", o.key}, {"tls-client-ca", o.clientCA}, {"users", o.users}, {"token-secret", o.tokens}} {
		if f.name == "" {
			continue
		}
		if _, err := os.Stat(f.name); errors.Is(err, fs.ErrNotExist) {
			return misuse("--%s %s: no such file", f.flag, f.name)
		}
	}
	return nil
}

// authenticates reports whether everybody has to say who it is.
func (o *securityOptions) authenticates() bool { return o.users != "" || o.clientCA != "" }

// security returns how the listeners are secured, but for the users, which need the cluster.
func (o *securityOptions) security(logger *slog.Logger) (s kafka.Security, err error) {
	if (o.cert == "") != (o.key == "") || o.clientCA != "" && o.cert == "" {
		return s, misuse("--tls-cert and --tls-key go together, and --tls-client-ca with them")
	}
	if o.cert != "" {
		s.TLS, err = kafka.TLSFiles{Cert: o.cert, Key: o.key, ClientCA: o.clientCA, Logger: logger}.Config()
	}
	return s, err
}

// sasl returns how clients authenticate as users of the cluster; nil: they do not.
func (o *securityOptions) sasl(cluster *strata.Cluster) *kafka.SASL {
	if o.users == "" {
		return nil
	}
	return &kafka.SASL{Plain: kafka.ClusterPasswords(cluster), Scram: []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512}}
}
