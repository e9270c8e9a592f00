package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
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
	f.StringVar(&o.users, "users", "", "clients have to authenticate, by SASL PLAIN or SCRAM: `file` with a line name=password for each user, # for comments. They become users of the cluster, and the file is read again on SIGHUP")
	f.StringVar(&o.tokens, "token-secret", "", "clients that have authenticated may have delegation tokens: `file` with the secret that the tokens' passwords follow from, the same at each start")
}

// delegation returns what the tokens of clients follow from. The file's content is the secret, but for
// space around it.
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

// readUsers reads a file of users.
func readUsers(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	users := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, ok := strings.Cut(line, "=")
		user, password = strings.TrimSpace(user), strings.TrimSpace(password)
		switch { // the line is not told: it may hold a password
		case !ok || user == "" || password == "":
			return nil, fmt.Errorf("%s, line %d: it is name=password", name, n)
		case users[user] != "":
			return nil, fmt.Errorf("%s, line %d: user %s is there twice", name, n, user)
		}
		users[user] = password
	}
	return users, lines.Err()
}

// applyUsers gives the cluster the users of the file; those that it had before, and has no more, are
// taken away. before is what it had; the result is for the next time.
func (o *securityOptions) applyUsers(ctx context.Context, cluster *strata.Cluster, before map[string]string) (map[string]string, error) {
	if o.users == "" {
		return nil, nil
	}
	users, err := readUsers(o.users)
	if err != nil {
		return before, err
	}
	there := cluster.ScramUsers()
	for user, password := range users {
		right := func(c replication.ScramCredential) bool { return c.Matches(password) }
		if len(there[user]) == 2 && right(there[user][0]) && right(there[user][1]) {
			continue
		}
		if err := cluster.SetPassword(ctx, user, password); err != nil {
			return before, err
		}
	}
	for user := range before {
		if users[user] != "" {
			continue
		}
		for _, cred := range slices.Clone(there[user]) {
			refused, err := cluster.AlterScramCredentials(ctx, replication.ScramChange{User: user, Delete: &cred.Mechanism})
			if err == nil {
				err = refused[user]
			}
			if err != nil {
				return before, err
			}
		}
	}
	return users, nil
}
