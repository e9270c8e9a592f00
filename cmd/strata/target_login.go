package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	passwords "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A login has the TLS and SASL settings of a connection to brokers.
type login struct {
	tls                       bool
	ca, cert, key, serverName string
	insecure                  bool

	user, mechanism, tokenFile string
	password                   string // not a flag: arguments of a process are public
}

// The names of mechanisms, as --sasl has them.
const (
	saslPlain    = "plain"
	saslScram256 = "scram-sha-256"
	saslScram512 = "scram-sha-512"
	saslOAuth    = "oauthbearer"
)

// flags adds the flags of a login, and returns their names.
func (l *login) flags(f *pflag.FlagSet) []string {
	f.BoolVar(&l.tls, "tls", false, "use TLS; implied by the other --tls flags")
	f.StringVar(&l.ca, "tls-ca", "", "`file` of the authorities of brokers' certificates, in PEM; default: the system's authorities")
	f.StringVar(&l.cert, "tls-cert", "", "`file` of the client certificate in PEM, followed by its chain")
	f.StringVar(&l.key, "tls-key", "", "`file` of the client certificate's key in PEM")
	f.StringVar(&l.serverName, "tls-server-name", "", "`name` in brokers' certificates, if it differs from the host of the address")
	f.BoolVar(&l.insecure, "tls-insecure", false, "accept any certificate; the broker is not authenticated")
	f.StringVar(&l.user, "user", "", "authenticate as `user`, with the password in $"+envOf(passwordSetting)+" or in the configuration file")
	f.StringVar(&l.mechanism, "sasl", saslScram512, "SASL mechanism: "+strings.Join([]string{saslPlain, saslScram256, saslScram512, saslOAuth}, ", "))
	f.StringVar(&l.tokenFile, "token-file", "", "`file` of a token, for --sasl "+saslOAuth+"; read again for each connection")
	return []string{"tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure", "user", "sasl", "token-file"}
}

// opts returns the client options for the login.
func (l *login) opts() (opts []kgo.Opt, err error) {
	if l.usesTLS() {
		cfg, err := l.tlsConfig()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	mechanism, err := l.sasl()
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, err
}

func (l *login) usesTLS() bool {
	return l.tls || l.ca != "" || l.cert != "" || l.key != "" || l.serverName != "" || l.insecure
}

func (l *login) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{ServerName: l.serverName, InsecureSkipVerify: l.insecure, MinVersion: tls.VersionTLS12}
	if l.ca != "" {
		p, err := os.ReadFile(l.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(p) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM", l.ca)
		}
	}
	if (l.cert == "") != (l.key == "") {
		return nil, misuse("--tls-cert and --tls-key go together")
	}
	if l.cert != "" {
		cert, err := tls.LoadX509KeyPair(l.cert, l.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// sasl returns the SASL mechanism, nil for none.
func (l *login) sasl() (sasl.Mechanism, error) {
	if l.tokenFile != "" && l.mechanism != saslOAuth {
		return nil, misuse("--token-file is for --sasl %s", saslOAuth)
	}
	switch l.mechanism {
	case saslOAuth:
		if l.tokenFile == "" {
			return nil, misuse("--sasl %s needs --token-file", saslOAuth)
		}
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			p, err := os.ReadFile(l.tokenFile)
			return oauth.Auth{Token: strings.TrimSpace(string(p))}, err
		}), nil
	case saslPlain, saslScram256, saslScram512:
	default:
		return nil, misuse("--sasl %s: must be %s, %s, %s or %s", l.mechanism, saslPlain, saslScram256, saslScram512, saslOAuth)
	}
	if l.user == "" {
		return nil, nil
	}
	if l.password == "" {
		return nil, misuse("--user %s: put the password in $%s or in the configuration file", l.user, envOf(passwordSetting))
	}
	switch l.mechanism {
	case saslPlain:
		return passwords.Auth{User: l.user, Pass: l.password}.AsMechanism(), nil
	case saslScram256:
		return scram.Auth{User: l.user, Pass: l.password}.AsSha256Mechanism(), nil
	}
	return scram.Auth{User: l.user, Pass: l.password}.AsSha512Mechanism(), nil
}

// explain adds to err, of a failed connection, the flags that may be missing.
func (l *login) explain(addrs string, err error) error {
	var first *kgo.ErrFirstReadEOF
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed) && l.user != "":
		return fmt.Errorf("%s rejects user %s: %w", addrs, l.user, err)
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%s rejects the login: %w", addrs, err)
	case errors.As(err, &first):
		return fmt.Errorf("%s closes the connection at once: it may need --tls or --user: %w", addrs, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is from an untrusted authority: add it with --tls-ca: %w", addrs, err)
	}
	return fmt.Errorf("no broker answers at %s: %w", addrs, err)
}
