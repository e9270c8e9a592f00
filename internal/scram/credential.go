package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
)

// A Mechanism is SCRAM with a certain hash function. The values are as in Kafka's protocol and
// metadata.
type Mechanism int8

// The mechanisms.
const (
	SHA256 Mechanism = 1
	SHA512 Mechanism = 2
)

// Bounds of the number of iterations. Kafka: ScramMechanism.minIterations,
// ScramControlManager.MAX_ITERATIONS.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// Valid reports whether there is such a mechanism.
func (m Mechanism) Valid() bool { return m == SHA256 || m == SHA512 }

// String returns the name of the mechanism in SASL, "SCRAM-SHA-256".
func (m Mechanism) String() string {
	switch m {
	case SHA256:
		return "SCRAM-SHA-256"
	case SHA512:
		return "SCRAM-SHA-512"
	}
	return fmt.Sprintf("unknown SCRAM mechanism %d", int8(m))
}

// ParseMechanism returns the mechanism of a name.
func ParseMechanism(name string) (Mechanism, bool) {
	for _, m := range []Mechanism{SHA256, SHA512} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

func (m Mechanism) hash() func() hash.Hash {
	if m == SHA512 {
		return sha512.New
	}
	return sha256.New
}

// Size returns the number of bytes of a key, and of a salted password.
func (m Mechanism) Size() int {
	if m == SHA512 {
		return sha512.Size
	}
	return sha256.Size
}

func (m Mechanism) mac(key, text []byte) []byte {
	h := hmac.New(m.hash(), key)
	h.Write(text)
	return h.Sum(nil)
}

func (m Mechanism) digest(b []byte) []byte {
	h := m.hash()()
	h.Write(b)
	return h.Sum(nil)
}

// A Credential is a server's record of a password. It lets an attacker impersonate the
// server and try passwords, but not log in as the user. Its bytes are never changed.
type Credential struct {
	Mechanism            Mechanism
	Salt                 []byte
	StoredKey, ServerKey []byte
	Iterations           int
}

// errSpace rejects parameters with which no password can be derived.
var errSpace = errors.New("scram: a salt is of 1 byte or more, and iterations are positive")

// Salted returns the salted password, which is as good as the password for this salt (RFC 5802:
// SaltedPassword). It takes about a microsecond for each iteration.
func (m Mechanism) Salted(password string, salt []byte, iterations int) ([]byte, error) {
	if len(salt) == 0 || iterations <= 0 {
		return nil, errSpace
	}
	return pbkdf2.Key(m.hash(), password, salt, iterations, m.Size())
}

// FromSalted returns the credential of a salted password. It copies salt.
func (m Mechanism) FromSalted(salted, salt []byte, iterations int) Credential {
	return Credential{
		Mechanism: m, Salt: append([]byte(nil), salt...), Iterations: iterations,
		StoredKey: m.digest(m.mac(salted, []byte("Client Key"))),
		ServerKey: m.mac(salted, []byte("Server Key")),
	}
}

// Matches reports whether the credential was made from password. It takes the same time either way.
func (c Credential) Matches(password string) bool {
	salted, err := c.Mechanism.Salted(password, c.Salt, c.Iterations)
	if err != nil {
		return false
	}
	stored := c.Mechanism.digest(c.Mechanism.mac(salted, []byte("Client Key")))
	return subtle.ConstantTimeCompare(stored, c.StoredKey) == 1
}

// A Shape is the public part of a credential: the form of its salt, and its iterations.
type Shape struct {
	SaltBytes  int
	Base36     bool // the salt is text of 0-9a-z, as Kafka's tools make it
	Iterations int
}

const base36 = "0123456789abcdefghijklmnopqrstuvwxyz"

// Shape returns the public part of a credential.
func (c Credential) Shape() Shape {
	s := Shape{SaltBytes: len(c.Salt), Base36: true, Iterations: c.Iterations}
	for _, b := range c.Salt {
		if (b < '0' || b > '9') && (b < 'a' || b > 'z') {
			s.Base36 = false
		}
	}
	return s
}

// DefaultShape is the Shape of a Decoy if there is no credential to imitate.
var DefaultShape = Shape{SaltBytes: 24, Iterations: MinIterations}

// Decoy returns a credential for a user that does not exist, the same for each secret, user and
// shape. No password matches it.
func (m Mechanism) Decoy(secret []byte, user string, s Shape) Credential {
	if s.SaltBytes < 1 || s.SaltBytes > 1<<10 || s.Iterations <= 0 {
		s = DefaultShape
	}
	seed := m.mac(secret, []byte(user))
	c := Credential{Mechanism: m, Iterations: s.Iterations, StoredKey: m.mac(seed, []byte("stored")), ServerKey: m.mac(seed, []byte("server"))}
	for block := byte(0); len(c.Salt) < s.SaltBytes; block++ {
		c.Salt = append(c.Salt, m.mac(seed, []byte{'s', block})...)
	}
	c.Salt = c.Salt[:s.SaltBytes]
	if s.Base36 {
		for i, b := range c.Salt {
			c.Salt[i] = base36[int(b)%len(base36)]
		}
	}
	return c
}
