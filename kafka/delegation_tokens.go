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

// DelegationTokens is how clients get tokens that stand for them (KIP-48): who has authenticated,
// but not by a token, creates one, renews it, and hands its id and password on, to be used as a
// user by SCRAM (tokenauth=true) until it expires. Whoever comes with a token is its owner, but for
// tokens themselves. The tokens are the cluster's, and count on every broker.
type DelegationTokens struct {
	// Secret is what the passwords of tokens follow from: who knows it has every token. It is the
	// same for all servers of a cluster, and after a restart. Empty: there are no tokens. Kafka:
	// delegation.token.secret.key.
	Secret string

	// MaxLifetime is how long a token lives, however often it is renewed, unless less is asked for.
	// 0 means 7 days. Kafka: delegation.token.max.lifetime.ms.
	MaxLifetime time.Duration

	// RenewPeriod is after how long a token expires that is not renewed, and for how long one may
	// be renewed at a time. 0 means a day. Kafka: delegation.token.expiry.time.ms.
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

// check returns why there cannot be such tokens.
func (d DelegationTokens) check() error {
	for name, t := range map[string]time.Duration{"MaxLifetime": d.MaxLifetime, "RenewPeriod": d.RenewPeriod} {
		if t != 0 && t < time.Millisecond {
			return fmt.Errorf("%w: %s of delegation tokens: %v is less than a millisecond", ErrInvalidSecurity, name, t)
		}
	}
	return nil
}

// hmac is what proves that somebody has the token of an id. Kafka:
// DelegationTokenManager.createHmac.
func (d DelegationTokens) hmac(id string) []byte {
	h := hmac.New(sha512.New, []byte(d.Secret))
	h.Write([]byte(id))
	return h.Sum(nil)
}

// credential is what SCRAM checks the password of a token against. It takes some milliseconds.
func (d DelegationTokens) credential(m scram.Mechanism, id string) (scram.Credential, error) {
	password := base64.StdEncoding.EncodeToString(d.hmac(id))
	salt := m.Decoy([]byte(d.Secret), id, scram.DefaultShape).Salt // always the same, and tells nothing
	salted, err := m.Salted(password, salt, scram.MinIterations)
	if err != nil {
		return scram.Credential{}, err
	}
	return m.FromSalted(salted, salt, scram.MinIterations), nil
}

// A tokenIndex finds the tokens of some metadata by what proves that one has them.
type tokenIndex struct {
	tokens *replication.DelegationTokens
	ids    map[string]string // by HMAC
}

// tokenOf returns the id of the token that an HMAC proves; false: there is none.
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

// mayHaveTokens reports whether the client may ask for tokens at all: not if nobody knows who it
// is, nor with nothing but a token. Kafka: KafkaApis.allowTokenRequests.
func (c *call) mayHaveTokens() bool {
	switch c.conn.security.Protocol() {
	case Plaintext:
		return false
	case SSL:
		return !c.principal.Is(anonymous) && !c.principal.TokenAuthenticated
	}
	return !c.principal.TokenAuthenticated
}

// changeToken has the token that an HMAC proves expire when decide says, and returns when that is.
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

// renews reports whether a principal may renew a token, or have it expire.
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

// principalParts returns type and name of a principal of a token, which were both checked.
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
