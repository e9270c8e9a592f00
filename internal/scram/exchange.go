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
	// ErrInvalid is matched by errors about malformed messages.
	ErrInvalid = errors.New("scram: invalid message")
	// ErrProof rejects a proof that was not made with the password, or for another exchange.
	ErrProof = errors.New("scram: wrong proof")
	// ErrRepeatedNonce rejects a client that has the password, but sends its own nonce twice:
	// alone, and then the whole nonce. RFC 5802 requires the rejection; Kafka before 4.0 accepts
	// such clients.
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
	AuthzID string // user to act as; empty: User
	User    string // or the id of a token
	Nonce   string
	Token   bool // tokenauth=true

	gs2  string // n,authzid,
	bare string // the rest of the message
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
	if strings.HasPrefix(parts[0], "m=") { // a mandatory extension: not supported; Kafka skips it
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

// saslName removes the escapes of a name, which must not be empty.
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

// Challenge returns the response to the client's first message. nonce is the server's: printable
// ASCII without commas, random enough never to repeat. So an old proof matches no other exchange.
func (f First) Challenge(c Credential, nonce string) (Exchange, []byte) {
	e := Exchange{first: f, credential: c, nonce: f.Nonce + nonce}
	e.challenge = fmt.Sprintf("r=%s,s=%s,i=%d", e.nonce, base64.StdEncoding.EncodeToString(c.Salt), c.Iterations)
	return e, []byte(e.challenge)
}

// Verify reads the client's last message and returns the response to a valid proof. Errors:
// ErrInvalid, ErrProof, ErrRepeatedNonce. It does the same work for an invalid proof.
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
