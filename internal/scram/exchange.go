package scram

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	// ErrInvalid is matched by errors about bytes that are no message of the exchange.
	ErrInvalid = errors.New("scram: invalid message")
	// ErrProof refuses a proof that was not made with the password, or for another exchange.
	ErrProof = errors.New("scram: wrong proof")
	// ErrRepeatedNonce refuses a client that knows the password and repeats its nonce before the
	// whole one. RFC 5802 has the server refuse it; Kafka before 4.0 let it pass.
	ErrRepeatedNonce = errors.New("scram: the client's nonce comes twice, as from librdkafka before 2.6.1 (confluent-kafka, node-rdkafka, rdkafka): the client needs a later version, or PLAIN over TLS")
)

// Bounds of a client's messages. The first message of an unauthenticated client is kept until the
// second: one or two names, its nonce and its extensions. Clients send nonces of 20 to 64 bytes.
const (
	MaxFirstBytes   = 4 << 10
	MaxMessageBytes = 16 << 10 // the last message has the header in base64, and both nonces
)

// A First is the client's first message.
type First struct {
	AuthzID string // who to act for; empty: User
	User    string // or the id of a token
	Nonce   string
	Token   bool // tokenauth=true

	gs2  string // n,authzid,
	bare string // what is behind it
}

// ParseFirst reads the client's first message, of at most MaxFirstBytes. The error matches
// ErrInvalid.
func ParseFirst(msg []byte) (f First, err error) {
	invalid := func(what string) (First, error) { return First{}, fmt.Errorf("%w: %s", ErrInvalid, what) }
	if len(msg) > MaxFirstBytes {
		return invalid(fmt.Sprintf("%d bytes", len(msg)))
	}
	text := string(msg)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return invalid("not text")
	}
	parts := strings.Split(text, ",")
	if len(parts) < 4 || parts[0] != "n" {
		return invalid("it does not begin with n: channel binding is not supported")
	}
	if parts[1] != "" {
		id, ok := strings.CutPrefix(parts[1], "a=")
		if f.AuthzID, ok = saslName(id, ok); !ok {
			return invalid("authorization id")
		}
	}
	f.gs2 = parts[0] + "," + parts[1] + ","
	f.bare = text[len(f.gs2):]
	parts = parts[2:]
	if strings.HasPrefix(parts[0], "m=") { // a mandatory extension, which Kafka skips; we cannot honour it
		return invalid("mandatory extension")
	}
	name, ok := strings.CutPrefix(parts[0], "n=")
	if f.User, ok = saslName(name, ok); !ok {
		return invalid("user")
	}
	if f.Nonce, ok = strings.CutPrefix(parts[1], "r="); !ok || !printable(f.Nonce) {
		return invalid("nonce")
	}
	for _, ext := range parts[2:] {
		key, value, ok := strings.Cut(ext, "=")
		if !ok || key == "" || value == "" {
			return invalid("extension")
		}
		if key == "tokenauth" {
			f.Token = strings.EqualFold(value, "true")
		}
	}
	return f, nil
}

// saslName undoes the escapes of a name, which may not be empty.
func saslName(s string, ok bool) (string, bool) {
	if !ok || s == "" {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '=' {
			b.WriteByte(s[i])
			continue
		}
		switch {
		case strings.HasPrefix(s[i:], "=2C"):
			b.WriteByte(',')
		case strings.HasPrefix(s[i:], "=3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		i += 2
	}
	return b.String(), true
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e || s[i] == ',' {
			return false
		}
	}
	return s != ""
}

// An Exchange is an exchange that waits for the client's proof.
type Exchange struct {
	first      First
	credential Credential
	challenge  string
	nonce      string // both halves
}

// Challenge returns the answer to the client's first message. nonce is the server's, of printable
// ASCII without commas, and of enough chance that none comes twice: an old proof fits no other.
func (f First) Challenge(c Credential, nonce string) (Exchange, []byte) {
	e := Exchange{first: f, credential: c, nonce: f.Nonce + nonce}
	e.challenge = fmt.Sprintf("r=%s,s=%s,i=%d", e.nonce, base64.StdEncoding.EncodeToString(c.Salt), c.Iterations)
	return e, []byte(e.challenge)
}

// Verify reads the client's last message and returns the answer to a proof that is right. Errors:
// ErrInvalid, ErrProof, ErrRepeatedNonce. It does the same work for a proof that is wrong.
func (e Exchange) Verify(msg []byte) ([]byte, error) {
	at := bytes.LastIndex(msg, []byte(",p="))
	if at < 0 {
		return nil, fmt.Errorf("%w: no proof", ErrInvalid)
	}
	proof, err := base64.StdEncoding.Strict().DecodeString(string(msg[at+3:]))
	if err != nil {
		return nil, fmt.Errorf("%w: proof", ErrInvalid)
	}
	parts := strings.Split(string(msg[:at]), ",")
	if len(parts) < 2 || parts[0] != "c="+base64.StdEncoding.EncodeToString([]byte(e.first.gs2)) {
		return nil, fmt.Errorf("%w: channel binding", ErrInvalid)
	}
	sameNonce := subtle.ConstantTimeCompare([]byte(parts[1]), []byte("r="+e.nonce))
	m := e.credential.Mechanism
	if len(proof) != m.Size() {
		return nil, fmt.Errorf("%w: proof of %d bytes", ErrInvalid, len(proof))
	}
	auth := []byte(e.first.bare + "," + e.challenge + "," + string(msg[:at]))
	key := make([]byte, m.Size())
	subtle.XORBytes(key, m.mac(e.credential.StoredKey, auth), proof)
	proved := subtle.ConstantTimeCompare(m.digest(key), e.credential.StoredKey)
	switch {
	case proved&sameNonce == 1:
	case proved == 1 && parts[1] == "r="+e.first.Nonce+e.nonce:
		return nil, ErrRepeatedNonce
	default:
		return nil, ErrProof
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(m.mac(e.credential.ServerKey, auth))), nil
}
