package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/replication"
)

// securityOptions configure TLS and the authentication of clients of `strata serve`.
type securityOptions struct {
	cert, key, clientCA, users, tokens string
}

func (o *securityOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.cert, "tls-cert", "", "serve TLS: `file` of the certificate in PEM, followed by its chain. Files are read again when they change")
	f.StringVar(&o.key, "tls-key", "", "`file` of the certificate's key in PEM")
	f.StringVar(&o.clientCA, "tls-client-ca", "", "require client certificates: `file` of their authorities in PEM. The name in its certificate is the principal of a client")
	f.StringVar(&o.users, "users", "", "require SASL PLAIN or SCRAM: `file` with a line name=password for each user, # for comments. They become users of the cluster. At each start and on SIGHUP, users no longer in the file are removed, except if the file has no users at all")
	f.StringVar(&o.tokens, "token-secret", "", "allow delegation tokens for authenticated clients: `file` with the secret that the tokens' passwords are derived from; keep it the same across starts")
}

// delegation returns the configuration of delegation tokens. The secret is the content of the file
// without surrounding white space.
func (o *securityOptions) delegation() (t kafka.DelegationTokens, err error) {
	if o.tokens == "" {
		return t, nil
	}
	if o.users == "" {
		return t, misuse("--token-secret needs --users: tokens authenticate by SASL")
	}
	b, err := os.ReadFile(o.tokens)
	if err != nil {
		return t, err
	}
	if t.Secret = strings.TrimSpace(string(b)); t.Secret == "" {
		return t, fmt.Errorf("%s: the file has no secret", o.tokens)
	}
	return t, nil
}

// check rejects files that do not exist.
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

// warn logs a warning for each file with secrets that every user of the machine can read.
func (o *securityOptions) warn(logger *slog.Logger) {
	for _, f := range []struct{ flag, name string }{{"users", o.users}, {"token-secret", o.tokens}, {"tls-key", o.key}} {
		warnReadable(logger, f.flag, f.name)
	}
}

// warnReadable logs a warning if every user of the machine can read the file. It ignores name "".
func warnReadable(logger *slog.Logger, flag, name string) {
	if everyoneReads(name) {
		logger.Warn("every user of this machine can read a file with secrets: chmod o-r", "flag", "--"+flag, "file", name)
	}
}

// everyoneReads reports whether every user of the machine can read the file. It is false on systems
// without such permissions.
func everyoneReads(name string) bool {
	info, err := os.Stat(name)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode()&0o004 != 0
}

// authenticates reports whether clients must authenticate.
func (o *securityOptions) authenticates() bool { return o.users != "" || o.clientCA != "" }

// security returns the security of the listeners, without SASL, which needs the cluster.
func (o *securityOptions) security(logger *slog.Logger) (s kafka.Security, err error) {
	if (o.cert == "") != (o.key == "") || o.clientCA != "" && o.cert == "" {
		return s, misuse("--tls-cert and --tls-key go together, and --tls-client-ca with them")
	}
	if o.cert != "" {
		s.TLS, err = kafka.TLSFiles{Cert: o.cert, Key: o.key, ClientCA: o.clientCA, Logger: logger}.Config()
	}
	return s, err
}

// sasl returns the SASL configuration for users of the cluster, nil without --users.
func (o *securityOptions) sasl(cluster *strata.Cluster) *kafka.SASL {
	if o.users == "" {
		return nil
	}
	return &kafka.SASL{Plain: kafka.ClusterPasswords(cluster), Scram: []replication.ScramMechanism{replication.ScramSHA256, replication.ScramSHA512}}
}
