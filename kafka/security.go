package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/stratalog/strata/internal/x500"
)

// ErrInvalidSecurity is returned for a listener with an inconsistent Security.
var ErrInvalidSecurity = errors.New("kafka: invalid security of a listener")

// A Protocol is the security protocol of a listener. Kafka: security.protocol.
type Protocol string

// The protocols are the combinations of TLS and SASL.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// Security configures encryption and authentication of a listener. The zero value has neither: the
// principal of each client is User:ANONYMOUS.
type Security struct {
	// TLS encrypts connections; nil means no encryption. It needs a certificate, and must not be
	// changed after Serve. GetCertificate or GetConfigForClient can replace certificates without a
	// restart, as TLSFiles does. ClientAuth must be tls.NoClientCert, VerifyClientCertIfGiven or
	// RequireAndVerifyClientCert. Kafka: ssl.client.auth none, requested, required.
	TLS *tls.Config

	// PrincipalRules map the name in a client's certificate to the name of a user. The zero value
	// keeps the name, "CN=alice,OU=dev". They apply if there is no SASL. A client to which no rule
	// applies is not served. Kafka: ssl.principal.mapping.rules.
	PrincipalRules PrincipalRules

	// SASL authenticates clients. nil means by their certificates, or not at all. A client is
	// served only requests of the authentication until it has authenticated.
	SASL *SASL
}

// PrincipalRules map distinguished names of certificates to names of users.
type PrincipalRules struct{ rules x500.Rules }

// ParsePrincipalRules parses rules in Kafka's form, as "RULE:^CN=(.*?),.*$/$1/L, DEFAULT". Patterns
// are those of package regexp: Java's back references and lookarounds are an error. A pattern that
// also matches the empty text (".*") replaces a name once; in Java it replaces twice.
func ParsePrincipalRules(text string) (PrincipalRules, error) {
	rules, err := x500.ParseRules(text)
	return PrincipalRules{rules}, err
}

// A Listener is a net.Listener with its own Security, for a server whose brokers have several
// listeners with different protocols. Serve, ServeAll and Announce accept it as any other listener.
type Listener struct {
	net.Listener

	// Name distinguishes the listeners of a broker. A client gets the addresses of brokers at
	// listeners with the same name as its own; brokers without such a listener are left out. Empty
	// means the name of the protocol. Kafka: listener.security.protocol.map.
	Name string

	Security Security
}

// Protocol returns the protocol that clients of the listener must use.
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

// authenticates reports whether every client must prove its identity before it is served.
func (s Security) authenticates() bool {
	return s.SASL != nil || s.TLS != nil && s.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// revealsSecrets reports whether clients send passwords or tokens without encryption.
func (s Security) revealsSecrets() bool {
	return s.TLS == nil && s.SASL != nil && (s.SASL.Plain != nil || s.SASL.OAuthBearer != nil)
}

// check returns an error that matches ErrInvalidSecurity for an invalid configuration.
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
		return fmt.Errorf("%w: client certificates are not verified (%v)", ErrInvalidSecurity, s.TLS.ClientAuth)
	case tls.VerifyClientCertIfGiven, tls.RequireAndVerifyClientCert:
		if s.TLS.ClientCAs == nil && s.TLS.GetConfigForClient == nil {
			return fmt.Errorf("%w: client certificates without ClientCAs, their authorities", ErrInvalidSecurity)
		}
	}
	return nil
}
