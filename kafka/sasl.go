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

// SASL configures the authentication of a listener's clients. At least one mechanism must be
// offered. The principal of an authenticated client is User:name. Neither the response nor its time
// shows a client whether the user does not exist or the password is wrong.
//
// After ten failures for one user from one address, further attempts for them run one at a time,
// FailureDelay apart. That ends after ten minutes without a failure. An attempt that would have to
// wait for more than ten seconds is rejected at once, and does not delay later ones.
type SASL struct {
	// Plain checks the passwords of PLAIN. PLAIN sends passwords unencrypted, so without TLS they
	// can be read on the network, and Serve logs a warning (Config.Logger). nil means that PLAIN is
	// not offered. See ClusterPasswords and StaticPasswords.
	Plain PasswordCheck
	// Scram are the SCRAM mechanisms to offer, for the cluster's users (strata.Cluster.SetPassword,
	// kafka-configs) and its delegation tokens (Config.DelegationTokens).
	Scram []replication.ScramMechanism
	// OAuthBearer validates the tokens of OAUTHBEARER (KIP-255). nil means that it is not offered.
	OAuthBearer TokenValidator

	// MaxReauth is the time after which a client must authenticate again (KIP-368): a later request
	// without that ends the connection. A token that expires earlier shortens the time. 0 means no
	// limit. Kafka: connections.max.reauth.ms.
	MaxReauth time.Duration
	// FailureDelay delays the response to a failed authentication and the end of the connection. 0
	// means 100 ms. Kafka: connection.failed.authentication.delay.ms.
	FailureDelay time.Duration
	// MaxReceiveBytes bounds a request before the client is authenticated. 0 means 512 KiB. A
	// message of PLAIN in it may have 32 KiB, the first message of SCRAM 4 KiB, and its later ones
	// 16 KiB. Kafka: sasl.server.max.receive.size.
	MaxReceiveBytes int
}

// A PasswordCheck reports whether the password of a user is right. An error means that the check
// failed: the client is rejected, and does not get the reason. It may block until ctx ends, and is
// called concurrently. It must take the same time for users that do not exist.
type PasswordCheck func(ctx context.Context, user, password string) (bool, error)

// StaticPasswords returns a check against a map of passwords by user. The map is copied.
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
	nobody := sum(string(secret)) // a random password, which no client has
	return func(_ context.Context, user, password string) (bool, error) {
		want, known := sums[user]
		if !known {
			want = nobody
		}
		got := sum(password)
		return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && known, nil
	}
}

// A TokenValidator validates bearer tokens. Package kafka has no validator for signed tokens,
// because their issuer and its keys depend on the application (KIP-768).
type TokenValidator interface {
	// ValidateToken returns the user and expiry of a token. A *TokenError is returned to the
	// client; any other error is not. It may block until ctx ends, and is called concurrently.
	ValidateToken(ctx context.Context, token string) (Token, error)
}

// A Token is the content of a valid bearer token.
type Token struct {
	User    string    // name of the user; not empty
	Expires time.Time // end of the connection, unless the client authenticates again; zero: never
}

// A TokenError rejects a bearer token with a reason for the client (RFC 7628).
type TokenError struct {
	Status              string // "invalid_token", "insufficient_scope"
	Scope               string // required scope; may be empty
	OpenIDConfiguration string // URL of the issuer's configuration; may be empty
}

func (e *TokenError) Error() string { return "kafka: bearer token refused: " + e.Status }

// withDefaults returns a copy with defaults for all unset fields.
func (s SASL) withDefaults() SASL {
	if s.FailureDelay <= 0 {
		s.FailureDelay = 100 * time.Millisecond
	}
	if s.MaxReceiveBytes <= 0 {
		s.MaxReceiveBytes = 512 << 10
	}
	return s
}

// mechanisms lists the names of the offered mechanisms.
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

// check returns an error for an invalid configuration.
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
