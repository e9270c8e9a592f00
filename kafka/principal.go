package kafka

import (
	"errors"
	"fmt"
	"strings"
)

// PrincipalTypeUser is the type of a principal that is a user, and the only one that Kafka's own
// authentication makes.
const PrincipalTypeUser = "User"

// ErrMalformedPrincipal refuses a principal that is not of the form type:name.
var ErrMalformedPrincipal = errors.New("kafka: principal is not of the form type:name")

// A Principal is who a connection acts for (Kafka: KafkaPrincipal). The zero value is nobody; a
// connection that has not been authenticated acts for Anonymous.
type Principal struct {
	// Type is "User", but for principals that an extension makes.
	Type string

	// Name is any text, colons too. Authorization compares it byte by byte.
	Name string

	// TokenAuthenticated says that the principal has proved itself by a delegation token, which
	// gives fewer rights: with a token none can be had or renewed (KIP-48). It is no part of who
	// the principal is: see Is.
	TokenAuthenticated bool
}

// Anonymous is who acts on a connection without authentication, User:ANONYMOUS.
func Anonymous() Principal { return Principal{Type: PrincipalTypeUser, Name: "ANONYMOUS"} }

// ParsePrincipal reads a principal as Principal.String writes it, "User:alice". What comes before
// the first colon is the type; the name may have more of them. Neither may be empty. The error is
// ErrMalformedPrincipal. Kafka: SecurityUtils.parseKafkaPrincipal.
func ParsePrincipal(s string) (Principal, error) {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || kind == "" || name == "" {
		return Principal{}, fmt.Errorf("%w: %q", ErrMalformedPrincipal, s)
	}
	return Principal{Type: kind, Name: name}, nil
}

// String returns the principal as access control entries have it, "User:alice".
func (p Principal) String() string { return p.Type + ":" + p.Name }

// Is reports whether p and q are the same one, however they proved it.
func (p Principal) Is(q Principal) bool { return p.Type == q.Type && p.Name == q.Name }

// anonymous is what principals of connections begin with; nothing changes it.
var anonymous = Anonymous()

// principal returns who the connection acts for. The result is immutable: when the client
// authenticates again it is replaced, and requests that have begun keep the former one (Kafka: the
// RequestContext is made when a request is received). Safe for concurrent use.
func (c *conn) principal() *Principal {
	if p := c.authenticated.Load(); p != nil {
		return p
	}
	return &anonymous
}

// setPrincipal says who the connection acts for from the next request on. Safe for concurrent use.
func (c *conn) setPrincipal(p Principal) { c.authenticated.Store(&p) }
