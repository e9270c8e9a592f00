package kafka

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/scram"
	"github.com/stratalog/strata/replication"
)

// DelegationTokens configures delegation tokens (KIP-48). A client that has authenticated without
// a token can create a token, renew it, and pass its id and password on. They work as user and
// password of SCRAM (tokenauth=true) until the token expires. The principal of a client with a
// token is the token's owner, but the client cannot create or renew tokens. Tokens belong to the
// cluster, and are valid on every broker.
type DelegationTokens struct {
	// Secret is the key that the passwords of tokens are derived from: with it anyone can compute
	// every token's password. It must be the same for all servers of a cluster, and after a
	// restart. Empty means no tokens. Kafka: delegation.token.secret.key.
	Secret string

	// MaxLifetime is the longest lifetime of a token, including renewals. A client may request
	// less. 0 means 7 days. Kafka: delegation.token.max.lifetime.ms.
	MaxLifetime time.Duration

	// RenewPeriod is the time after which a token expires unless it is renewed, and the longest
	// period of one renewal. 0 means a day. Kafka: delegation.token.expiry.time.ms.
	RenewPeriod time.Duration
}

const (
	defaultMaxLifetime = 7 * 24 * time.Hour
	defaultRenewPeriod = 24 * time.Hour
)

func (d DelegationTokens) withDefaults() DelegationTokens {
	if d.MaxLifetime == 0 {
		d.MaxLifetime = defaultMaxLifetime
	}
	if d.RenewPeriod == 0 {
		d.RenewPeriod = defaultRenewPeriod
	}
	return d
}

// check returns an error for an invalid configuration of tokens.
func (d DelegationTokens) check() error {
	for name, t := range map[string]time.Duration{"MaxLifetime": d.MaxLifetime, "RenewPeriod": d.RenewPeriod} {
		if t != 0 && t < time.Millisecond {
			return fmt.Errorf("%w: %s of delegation tokens: %v is less than a millisecond", ErrInvalidSecurity, name, t)
		}
	}
	return nil
}

// hmac returns the HMAC of a token's id, which is the token's password. Kafka:
// DelegationTokenManager.createHmac.
func (d DelegationTokens) hmac(id string) []byte {
	h := hmac.New(sha512.New, []byte(d.Secret))
	h.Write([]byte(id))
	return h.Sum(nil)
}

// credential returns the SCRAM credential of a token. It takes some milliseconds.
func (d DelegationTokens) credential(m scram.Mechanism, id string) (scram.Credential, error) {
	password := base64.StdEncoding.EncodeToString(d.hmac(id))
	// The salt is the same in each call, and reveals nothing about the secret.
	salt := m.Decoy([]byte(d.Secret), id, scram.DefaultShape).Salt
	salted, err := m.Salted(password, salt, scram.MinIterations)
	if err != nil {
		return scram.Credential{}, err
	}
	return m.FromSalted(salted, salt, scram.MinIterations), nil
}

// A tokenIndex finds tokens by their HMAC, for one version of the metadata.
type tokenIndex struct {
	tokens *replication.DelegationTokens
	ids    map[string]string // by HMAC
}

// tokenOf returns the id of the token with an HMAC, false if there is none.
func (s *Server) tokenOf(hmac []byte) (id string, ok bool) {
	known, tokens := s.tokens.Load(), s.cluster.DelegationTokens()
	if known == nil || known.tokens != tokens {
		index := &tokenIndex{tokens, make(map[string]string, tokens.Len())}
		for t := range tokens.All() {
			index.ids[string(s.cfg.DelegationTokens.hmac(t.ID))] = t.ID
		}
		s.tokens.Store(index)
		known = index
	}
	id, ok = known.ids[string(hmac)]
	return id, ok
}

// mayHaveTokens reports whether the client may send requests about tokens. It may not without
// authentication, nor if it has authenticated with a token. Kafka: KafkaApis.allowTokenRequests.
func (c *call) mayHaveTokens() bool {
	switch c.conn.security.Protocol() {
	case Plaintext:
		return false
	case SSL:
		return !c.principal.Is(anonymous) && !c.principal.TokenAuthenticated
	}
	return !c.principal.TokenAuthenticated
}

// changeToken sets the expiry of the token with an HMAC to the result of decide, and returns it.
// Kafka: DelegationTokenControlManager.
func (c *call) changeToken(hmac []byte, decide func(replication.DelegationToken, time.Time) time.Time) (expires time.Time, err error) {
	if c.s.cfg.DelegationTokens.Secret == "" {
		return time.Time{}, refuse(DelegationTokenAuthDisabled, "delegation tokens are disabled")
	}
	id, ok := c.s.tokenOf(hmac)
	if !ok {
		return time.Time{}, replication.ErrDelegationTokenNotFound
	}
	err = c.s.cluster.AlterDelegationToken(c.ctx, id, func(t replication.DelegationToken) (time.Time, error) {
		now := time.Now()
		switch {
		case !t.Live(now):
			return time.Time{}, refuse(DelegationTokenExpired, "the delegation token has expired")
		case !renews(t, c.principal.String()):
			return time.Time{}, refuse(DelegationTokenOwnerMismatch, "neither the owner of the delegation token nor one of its renewers")
		}
		expires = decide(t, now)
		if expires.After(t.Max) {
			expires = t.Max
		}
		return expires, nil
	})
	return expires, err
}

// renews reports whether a principal may renew or expire a token.
func renews(t replication.DelegationToken, principal string) bool {
	if t.Owner == principal {
		return true
	}
	for _, r := range t.Renewers {
		if r == principal {
			return true
		}
	}
	return false
}

// principalParts returns the type and the name of a token's principal, which has the form
// User:alice.
func principalParts(principal string) (kind, name string) {
	kind, name, _ = strings.Cut(principal, ":")
	return kind, name
}

// milliseconds returns a number of milliseconds as a duration, at most limit.
func milliseconds(ms int64, limit time.Duration) time.Duration {
	if ms >= limit.Milliseconds() {
		return limit
	}
	return time.Duration(ms) * time.Millisecond
}
