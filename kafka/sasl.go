package kafka

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/replication"
)

// Names of SASL mechanisms.
const (
	mechanismPlain  = "PLAIN"
	mechanismBearer = "OAUTHBEARER"
)

// SASL says how the clients of a listener authenticate. At least one mechanism must be offered.
// Whoever authenticates is User:name. A user that does not exist is told from a wrong password
// neither by the answers nor by their time.
//
// Who has failed to authenticate as one user from one address ten times is let try one at a time
// from then on, FailureDelay after the other, until ten minutes without a failure have passed. An
// attempt whose turn would come in more than ten seconds is refused, and takes none.
type SASL struct {
	// Plain checks the passwords of PLAIN, which sends them as they are: without TLS anybody on the
	// way reads them. nil: PLAIN is not offered. See ClusterPasswords and StaticPasswords.
	Plain PasswordCheck
	// Scram are the mechanisms of SCRAM to offer, against the cluster's users
	// (strata.Cluster.SetPassword, kafka-configs), and its delegation tokens
	// (Config.DelegationTokens).
	Scram []replication.ScramMechanism
	// OAuthBearer validates the tokens of OAUTHBEARER (KIP-255). nil: it is not offered.
	OAuthBearer TokenValidator

	// MaxReauth is how long a client is authenticated before it has to do it again (KIP-368): a
	// later request ends the connection. A token that expires before ends it then. 0: for ever.
	// Kafka: connections.max.reauth.ms.
	MaxReauth time.Duration
	// FailureDelay is how long the answer to a failed authentication is held back, and the end of
	// the connection. 0 means 100 ms. Kafka: connection.failed.authentication.delay.ms.
	FailureDelay time.Duration
	// MaxReceiveBytes bounds a request before the client is authenticated. 0 means 512 KiB. Of what
	// is said in it by PLAIN 32 KiB are allowed, and by SCRAM 16 KiB, the first message 4 KiB.
	// Kafka: sasl.server.max.receive.size.
	MaxReceiveBytes int
}

// A PasswordCheck reports whether a password is that of a user. An error means that it cannot be
// found out; the client is refused, and not told why. It may block until ctx ends, and is called on
// many goroutines at a time. It must take the same time for users that do not exist.
type PasswordCheck func(ctx context.Context, user, password string) (bool, error)

// StaticPasswords checks passwords against those of a map, by user, which is copied.
func StaticPasswords(passwords map[string]string) PasswordCheck {
	type digest = [sha256.Size]byte
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	sum := func(password string) digest { return sha256.Sum256(append(secret[:32:32], password...)) }
	sums := make(map[string]digest, len(passwords))
	for user, password := range passwords {
		if password != "" {
			sums[user] = sum(password)
		}
	}
	nobody := sum(string(secret)) // a password that nobody knows
	return func(_ context.Context, user, password string) (bool, error) {
		want, known := sums[user]
		if !known {
			want = nobody
		}
		got := sum(password)
		return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && known, nil
	}
}

// A TokenValidator says whose a bearer token is. Package kafka has none for signed tokens: what
// signs them, and where its keys are, is the application's to know (KIP-768).
type TokenValidator interface {
	// ValidateToken returns what a token says. A *TokenError tells the client what is wrong with
	// it; after any other error it is told nothing. It may block until ctx ends, and is called on
	// many goroutines at a time.
	ValidateToken(ctx context.Context, token string) (Token, error)
}

// A Token is what a TokenValidator has found a bearer token to say.
type Token struct {
	User    string    // whom it is for; not empty
	Expires time.Time // when the connection ends, unless the client authenticates again; zero: never
}

// A TokenError refuses a bearer token, and tells the client why (RFC 7628).
type TokenError struct {
	Status              string // "invalid_token", "insufficient_scope"
	Scope               string // that is needed; may be empty
	OpenIDConfiguration string // where tokens are to be had; may be empty
}

func (e *TokenError) Error() string { return "kafka: bearer token refused: " + e.Status }

// withDefaults returns a copy with every setting.
func (s SASL) withDefaults() SASL {
	if s.FailureDelay <= 0 {
		s.FailureDelay = 100 * time.Millisecond
	}
	if s.MaxReceiveBytes <= 0 {
		s.MaxReceiveBytes = 512 << 10
	}
	return s
}

// mechanisms lists what is offered.
func (s *SASL) mechanisms() (names []string) {
	if s.Plain != nil {
		names = append(names, mechanismPlain)
	}
	for _, m := range s.Scram {
		names = append(names, m.String())
	}
	if s.OAuthBearer != nil {
		names = append(names, mechanismBearer)
	}
	return names
}

// check returns why clients cannot authenticate like this.
func (s *SASL) check() error {
	if len(s.mechanisms()) == 0 {
		return fmt.Errorf("%w: SASL without a mechanism", ErrInvalidSecurity)
	}
	for i, m := range s.Scram {
		if !m.Valid() || slices.Contains(s.Scram[:i], m) {
			return fmt.Errorf("%w: %v is unknown or comes twice", ErrInvalidSecurity, m)
		}
	}
	if s.MaxReauth < 0 {
		return fmt.Errorf("%w: a negative MaxReauth", ErrInvalidSecurity)
	}
	return nil
}
