package sasl

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrInvalid is matched by errors about malformed messages of a mechanism.
var ErrInvalid = errors.New("sasl: invalid message")

// A Told error has a text that is safe to send to the client as it is.
type Told string

func (t Told) Error() string { return string(t) }

// Plain is a client's message of PLAIN (RFC 4616).
type Plain struct{ AuthzID, User, Password string }

// ParsePlain parses the only message of PLAIN. The error is Told, with Kafka's text.
func ParsePlain(msg []byte) (Plain, error) {
	parts := bytes.SplitN(msg, []byte{0}, 5)
	if len(parts) != 3 {
		return Plain{}, Told(fmt.Sprintf("Invalid SASL/PLAIN response: expected 3 tokens, got %d", min(len(parts), 4)))
	}
	p := Plain{string(parts[0]), string(parts[1]), string(parts[2])}
	switch {
	case p.User == "":
		return Plain{}, Told("Authentication failed: username not specified")
	case p.Password == "":
		return Plain{}, Told("Authentication failed: password not specified")
	}
	return p, nil
}

// Bearer is a client's first message of OAUTHBEARER (RFC 7628).
type Bearer struct {
	AuthzID    string
	Token      string
	Extensions map[string]string // nil if none
}

// AfterError is the client's response to an error of OAUTHBEARER.
var AfterError = []byte{1}

// ParseBearer parses the first message of OAUTHBEARER. The error matches ErrInvalid.
func ParseBearer(msg []byte) (b Bearer, err error) {
	invalid := func(what string) (Bearer, error) { return Bearer{}, fmt.Errorf("%w: %s", ErrInvalid, what) }
	text := string(msg)
	if !utf8.ValidString(text) {
		return invalid("not text")
	}
	header, rest, ok := strings.Cut(text, "\x01")
	if !ok || !strings.HasPrefix(header, "n,") || !strings.HasSuffix(header, ",") || len(header) < 3 {
		return invalid("header")
	}
	if id := header[2 : len(header)-1]; id != "" {
		name, ok := strings.CutPrefix(id, "a=")
		if !ok || name == "" || strings.ContainsAny(name, ",\x00") {
			return invalid("authorization id")
		}
		b.AuthzID = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(name)
	}
	rest, ok = strings.CutSuffix(rest, "\x01")
	if !ok {
		return invalid("it does not end")
	}
	auth := ""
	for rest != "" {
		var pair string
		if pair, rest, ok = strings.Cut(rest, "\x01"); !ok {
			return invalid("a pair does not end")
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !isKey(key) || !isValue(value) {
			return invalid("pair")
		}
		if key == "auth" {
			auth = value
			continue
		}
		if b.Extensions == nil {
			b.Extensions = map[string]string{}
		}
		b.Extensions[key] = value
	}
	scheme, token, _ := strings.Cut(auth, " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "bearer") || !isToken(token) {
		return invalid("auth")
	}
	b.Token = token
	return b, nil
}

func isKey(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}

func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 0x21 || c > 0x7e) && c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return s != ""
}

// isToken reports whether s is a b64token of RFC 6750.
func isToken(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		c := body[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("-_~+/.", rune(c)) {
			return false
		}
	}
	return body != ""
}
