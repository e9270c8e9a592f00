package kafka

import (
	"errors"
	"fmt"
	"strings"
)

// PrincipalTypeUser is the type of users. Kafka's own authentication creates no other type.
const PrincipalTypeUser = "User"

// ErrMalformedPrincipal is returned for a principal that is not of the form type:name.
var ErrMalformedPrincipal = errors.New("kafka: principal is not of the form type:name")

// A Principal is the identity of a client (Kafka: KafkaPrincipal). The zero value is not valid. A
// connection without authentication has the principal Anonymous.
type Principal struct {
	// Type is "User", except for principals of an extension.
	Type string

	// Name is any text, including colons. Authorization compares it byte by byte.
	Name string

	// TokenAuthenticated is set if the client has authenticated with a delegation token. Such a
	// client cannot create or renew tokens (KIP-48). It is not part of the identity: see Is.
	TokenAuthenticated bool
}

// Anonymous returns the principal of connections without authentication, User:ANONYMOUS.
func Anonymous() Principal { return Principal{Type: PrincipalTypeUser, Name: "ANONYMOUS"} }

// ParsePrincipal parses the output of Principal.String, as "User:alice". The type is the text
// before the first colon; the name may have colons. Neither may be empty. The error is
// ErrMalformedPrincipal. Kafka: SecurityUtils.parseKafkaPrincipal.
func ParsePrincipal(s string) (Principal, error) {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || kind == "" || name == "" {
		return Principal{}, fmt.Errorf("%w: %q", ErrMalformedPrincipal, s)
	}
	return Principal{Type: kind, Name: name}, nil
}

// String returns the form used in access control entries, "User:alice".
func (p Principal) String() string { return p.Type + ":" + p.Name }

// Is reports whether p and q are the same identity. It ignores TokenAuthenticated.
func (p Principal) Is(q Principal) bool { return p.Type == q.Type && p.Name == q.Name }

// anonymous is the initial principal of connections; it is never changed.
var anonymous = Anonymous()

// principal returns the connection's principal. The result is immutable. When the client
// authenticates again it is replaced, and requests in progress keep the former one. Kafka creates
// the RequestContext when a request is received. Safe for concurrent use.
func (c *conn) principal() *Principal {
	if p := c.authenticated.Load(); p != nil {
		return p
	}
	return &anonymous
}

// setPrincipal sets the connection's principal from the next request on. Safe for concurrent use.
func (c *conn) setPrincipal(p Principal) { c.authenticated.Store(&p) }
