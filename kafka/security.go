package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/stratalog/strata/internal/x500"
)

// ErrInvalidSecurity refuses to serve a listener whose Security contradicts itself.
var ErrInvalidSecurity = errors.New("kafka: invalid security of a listener")

// A Protocol is how a listener is secured. Kafka: security.protocol.
type Protocol string

// The protocols, which say whether there is TLS, and whether clients authenticate by SASL.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// Security says how the clients of a listener prove who they are, and whether what they say is
// encrypted. The zero value is neither: whoever connects is User:ANONYMOUS.
type Security struct {
	// TLS is how connections are encrypted; nil: not at all. It needs a certificate, and is not
	// changed after Serve; GetCertificate or GetConfigForClient replace certificates without a
	// restart, as TLSFiles does. ClientAuth is one of tls.NoClientCert, VerifyClientCertIfGiven and
	// RequireAndVerifyClientCert. Kafka: ssl.client.auth none, requested, required.
	TLS *tls.Config

	// PrincipalRules make the name of a user from that in a client's certificate; the zero value
	// leaves it as it is, "CN=alice,OU=dev". They count where there is no SASL. A client to which
	// no rule applies is not served. Kafka: ssl.principal.mapping.rules.
	PrincipalRules PrincipalRules

	// SASL is how clients authenticate; nil: by their certificates, or not at all. Until a client
	// has, it is served nothing but what belongs to it.
	SASL *SASL
}

// PrincipalRules turn the distinguished names of certificates into names of users.
type PrincipalRules struct{ rules x500.Rules }

// ParsePrincipalRules reads rules in Kafka's form, as "RULE:^CN=(.*?),.*$/$1/L, DEFAULT". Patterns
// are those of package regexp: Java's back references and looking around are refused. A pattern
// that matches the empty text too (".*") replaces a name once, where Java does it twice.
func ParsePrincipalRules(text string) (PrincipalRules, error) {
	rules, err := x500.ParseRules(text)
	return PrincipalRules{rules}, err
}

// A Listener is a net.Listener with a security of its own: one server has several, of different
// protocols, for each of its brokers. Serve, ServeAll and Announce take it as any other one.
type Listener struct {
	net.Listener

	// Name tells the listeners of a broker apart: clients are told where brokers are served by a
	// listener of the name that they came in by, and brokers that have none are not there for them.
	// Empty: the name of the protocol. Kafka: listener.security.protocol.map.
	Name string

	Security Security
}

// Protocol returns the protocol that the clients of such a listener have to speak.
func (s Security) Protocol() Protocol {
	switch {
	case s.TLS != nil && s.SASL != nil:
		return SASLSSL
	case s.SASL != nil:
		return SASLPlaintext
	case s.TLS != nil:
		return SSL
	}
	return Plaintext
}

// authenticates reports whether nobody is served without having proved who they are.
func (s Security) authenticates() bool {
	return s.SASL != nil || s.TLS != nil && s.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// check returns why no listener can be secured like this; it matches ErrInvalidSecurity.
func (s Security) check() error {
	if s.SASL != nil {
		if err := s.SASL.check(); err != nil {
			return err
		}
	}
	if s.TLS == nil {
		return nil
	}
	if len(s.TLS.Certificates) == 0 && s.TLS.GetCertificate == nil && s.TLS.GetConfigForClient == nil {
		return fmt.Errorf("%w: TLS without a certificate", ErrInvalidSecurity)
	}
	switch s.TLS.ClientAuth {
	case tls.RequestClientCert, tls.RequireAnyClientCert:
		return fmt.Errorf("%w: client certificates that nobody verifies (%v)", ErrInvalidSecurity, s.TLS.ClientAuth)
	case tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert:
		if s.TLS.ClientCAs == nil && s.TLS.GetConfigForClient == nil {
			return fmt.Errorf("%w: client certificates without ClientCAs, the authorities that sign them", ErrInvalidSecurity)
		}
	}
	return nil
}
