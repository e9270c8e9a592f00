package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/internal/scram"
)

// An exchange is one authentication by one mechanism: a sequence of messages of the client, each
// with a response.
type exchange interface {
	// step processes a message of the client and returns the response. After the last message it
	// also returns the client's identity. Of an error, the client receives only a sasl.Told.
	step(ctx context.Context, token []byte) (answer []byte, who *identity, err error)
	// longest returns the maximum size of a message in bytes. Longer messages are not parsed.
	longest() int
}

// maxPlainBytes bounds the only message of PLAIN, which is kept in memory while its attempt is
// delayed. Tokens that serve as passwords have a few kilobytes.
const maxPlainBytes = 32 << 10

var errLongToken = errors.New("kafka: a message of SASL is longer than its mechanism needs")

// identity is the proved identity of a client.
type identity struct {
	user    string
	token   bool      // proved by a delegation token
	expires time.Time // zero: never
}

// newExchange begins an exchange; nil if the mechanism is not offered.
func (c *conn) newExchange(mechanism string) exchange {
	cfg := c.sasl.cfg
	switch mechanism {
	case mechanismPlain:
		if cfg.Plain != nil {
			return &plainExchange{c}
		}
	case mechanismBearer:
		if cfg.OAuthBearer != nil {
			return &bearerExchange{c: c}
		}
	}
	for _, m := range cfg.Scram {
		if m.String() == mechanism {
			return &scramExchange{c: c, mechanism: m}
		}
	}
	return nil
}

var errTooManyAttempts = errors.New("kafka: too many attempts to authenticate as this user")

// attempt calls check, which returns an error unless the client is the user. It first waits for
// the slot of the attempt, see sasl.Pace.
func (c *conn) attempt(ctx context.Context, user string, check func() error) error {
	s, name := c.s, c.host+"\x00"+user
	s.paceMu.Lock()
	wait, ok := s.pace.Begin(name, time.Now(), c.sasl.cfg.FailureDelay)
	s.paceMu.Unlock()
	if !ok {
		return errTooManyAttempts
	}
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := check()
	s.paceMu.Lock()
	s.pace.End(name, time.Now(), err != nil)
	s.paceMu.Unlock()
	return err
}

// plainExchange implements PLAIN. Kafka: PlainSaslServer.
type plainExchange struct{ c *conn }

func (e *plainExchange) longest() int { return maxPlainBytes }

func (e *plainExchange) step(ctx context.Context, token []byte) ([]byte, *identity, error) {
	p, err := sasl.ParsePlain(token)
	if err != nil {
		return nil, nil, err
	}
	err = e.c.attempt(ctx, p.User, func() error {
		ok, err := e.c.sasl.cfg.Plain(ctx, p.User, p.Password)
		switch {
		case err != nil:
			return errors.Join(sasl.Told("Authentication failed: credentials for user could not be verified"), err)
		case !ok:
			return sasl.Told("Authentication failed: Invalid username or password")
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if p.AuthzID != "" && p.AuthzID != p.User {
		return nil, nil, sasl.Told("Authentication failed: Client requested an authorization id that is different from username")
	}
	return nil, &identity{user: p.User}, nil
}

// scramExchange implements SCRAM. Kafka: ScramSaslServer.
type scramExchange struct {
	c         *conn
	mechanism scram.Mechanism
	pending   *scram.Exchange // nil unless a challenge was sent
	user      string          // name of the user, or id of the token
	who       *identity       // identity if the proof is right; nil if there is no such user
}

func (e *scramExchange) longest() int { return scram.MaxMessageBytes }

func (e *scramExchange) step(ctx context.Context, token []byte) ([]byte, *identity, error) {
	if e.pending == nil {
		answer, err := e.challenge(token)
		return answer, nil, err
	}
	pending := *e.pending
	e.pending = nil
	var answer []byte
	err := e.c.attempt(ctx, e.user, func() (err error) {
		if answer, err = pending.Verify(token); err == nil && e.who == nil {
			err = scram.ErrProof
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return answer, e.who, nil
}

func (e *scramExchange) challenge(token []byte) ([]byte, error) {
	first, err := scram.ParseFirst(token)
	if err != nil {
		return nil, err
	}
	if first.AuthzID != "" && first.AuthzID != first.User {
		return nil, sasl.Told("Authentication failed: Client requested an authorization id that is different from username")
	}
	s := e.c.s
	e.user = first.User
	cred, who, err := e.find(first)
	if err != nil {
		return nil, err
	}
	if who == nil {
		chance := binary.BigEndian.Uint64(scram.SHA256.Decoy(s.decoys, "shape of "+first.User, scram.DefaultShape).Salt)
		cred = e.mechanism.Decoy(s.decoys, first.User, s.cluster.ScramShape(chance))
	}
	e.who = who
	pending, answer := first.Challenge(cred, rand.Text())
	e.pending = &pending
	return answer, nil
}

// find returns the credential and identity of a user or a delegation token. The identity is nil if
// there is none of that name, or if the token has expired. Ids of tokens are random: clients
// cannot find existing ones by the time of a response.
func (e *scramExchange) find(first scram.First) (scram.Credential, *identity, error) {
	s := e.c.s
	if !first.Token {
		cred, ok := s.cluster.ScramCredential(e.mechanism, first.User)
		if !ok {
			return cred, nil, nil
		}
		return cred, &identity{user: first.User}, nil
	}
	t, ok := s.cluster.DelegationTokens().Get(first.User)
	if !ok || s.cfg.DelegationTokens.Secret == "" || !t.Live(time.Now()) {
		return scram.Credential{}, nil, nil
	}
	cred, err := s.cfg.DelegationTokens.credential(e.mechanism, t.ID)
	_, owner := principalParts(t.Owner)
	return cred, &identity{user: owner, token: true, expires: t.Expires}, err
}

// bearerExchange implements OAUTHBEARER. It keeps no part of a token, which may be as long as a
// request. Kafka: OAuthBearerSaslServer.
type bearerExchange struct {
	c       *conn
	refused string // error for the client's token, as sent to the client; empty if none
}

func (e *bearerExchange) longest() int { return e.c.sasl.cfg.MaxReceiveBytes }

func (e *bearerExchange) step(ctx context.Context, msg []byte) ([]byte, *identity, error) {
	if e.refused != "" && bytes.Equal(msg, sasl.AfterError) {
		return nil, nil, sasl.Told(e.refused)
	}
	e.refused = ""
	b, err := sasl.ParseBearer(msg)
	if err != nil {
		return nil, nil, err
	}
	token, err := e.c.sasl.cfg.OAuthBearer.ValidateToken(ctx, b.Token)
	var why *TokenError
	switch {
	case errors.As(err, &why):
		told, _ := json.Marshal(struct {
			Status string `json:"status"`
			Scope  string `json:"scope,omitempty"`
			OpenID string `json:"openid-configuration,omitempty"`
		}{why.Status, why.Scope, why.OpenIDConfiguration})
		e.refused = string(told)
		return told, nil, nil
	case err != nil:
		return nil, nil, err
	case token.User == "":
		return nil, nil, errors.New("kafka: the validator names no user")
	case !token.Expires.IsZero() && !token.Expires.After(time.Now()):
		return nil, nil, errors.New("kafka: the token has expired")
	case b.AuthzID != "" && b.AuthzID != token.User:
		return nil, nil, sasl.Told(fmt.Sprintf("Authentication failed: Client requested an authorization id (%s) that is different from the token's principal name (%s)", b.AuthzID, token.User))
	}
	return nil, &identity{user: strings.Clone(token.User), expires: token.Expires}, nil // User may alias the token
}
