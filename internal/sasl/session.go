package sasl

import (
	"fmt"
	"time"
)

// API keys that are special before authentication.
const (
	keySaslHandshake    = 17
	keyApiVersions      = 18
	keySaslAuthenticate = 36
)

// A Verdict is the treatment of a request.
type Verdict uint8

// Verdicts.
const (
	Serve   Verdict = iota
	Refuse          // reply with ILLEGAL_SASL_STATE, then close the connection
	HangUp          // close the connection as after a failure, without a reply
	Close           // close the connection at once
	Illegal         // reply with ILLEGAL_SASL_STATE, and keep the connection
)

// minReauth is the least time between two re-authentications of a connection. Kafka:
// KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
const minReauth = time.Second

type stage uint8

const (
	stageInitial   stage = iota // ApiVersions or SaslHandshake
	stageHandshake              // SaslHandshake
	stageToken                  // messages of the mechanism
	stageDone
	stageFailed
)

// A Session is the state of one connection's authentication. The zero value is its start.
// Kafka: SaslServerAuthenticator.SaslState.
type Session struct {
	stage     stage
	again     bool // a re-authentication
	raw       bool // tokens come without SaslAuthenticate around them (SaslHandshake 0)
	spoiled   string
	mechanism string // of the last handshake
	agreed    string // of the last successful authentication
	principal string
	expires   time.Time // zero if never
	began     time.Time // time of the last re-authentication's start
}

// Authenticated reports whether requests of all kinds are served: after the first authentication,
// and not during the next one.
func (s *Session) Authenticated() bool { return s.stage == stageDone }

// Raw reports whether the next bytes are a size and that many bytes of the mechanism.
func (s *Session) Raw() bool { return s.stage == stageToken && s.raw }

// Mechanism returns the mechanism of the present authentication, or else of the last one.
func (s *Session) Mechanism() string { return s.mechanism }

// Again reports whether this is a re-authentication.
func (s *Session) Again() bool { return s.again }

// Principal returns the last authenticated principal; empty if none.
func (s *Session) Principal() string { return s.principal }

// Admit returns the verdict on a request with that API key at the time now.
func (s *Session) Admit(key int16, now time.Time) Verdict {
	switch s.stage {
	case stageInitial:
		if key == keyApiVersions || key == keySaslHandshake {
			return Serve
		}
		return HangUp
	case stageHandshake:
		switch key {
		case keySaslHandshake:
			return Serve
		case keyApiVersions: // Kafka: IllegalStateException
			return Close
		}
		return HangUp
	case stageToken:
		switch {
		case s.spoiled != "":
			return HangUp
		case key == keySaslAuthenticate && !s.raw:
			return Serve
		}
		return Refuse
	case stageDone:
		return s.admitDone(key, now)
	}
	return Close
}

// admitDone is Admit for an authenticated client.
func (s *Session) admitDone(key int16, now time.Time) Verdict {
	switch {
	case key == keySaslHandshake && !s.expires.IsZero() && (s.began.IsZero() || now.Sub(s.began) >= minReauth):
		s.began, s.again, s.stage = now, true, stageHandshake
		return Serve
	case !s.expires.IsZero() && now.After(s.expires):
		return Close
	case key == keySaslHandshake, key == keySaslAuthenticate:
		return Illegal
	}
	return Serve
}

// Versions records that ApiVersions was answered without an error.
func (s *Session) Versions() {
	if s.stage == stageInitial {
		s.stage = stageHandshake
	}
}

// Handshake applies a SaslHandshake for an enabled mechanism, and reports whether an exchange
// begins. A re-authentication by another mechanism than the first gets a normal response, and fails
// with the next message, as in Kafka.
func (s *Session) Handshake(mechanism string, version int16) bool {
	s.stage, s.raw = stageToken, version == 0
	if s.again && mechanism != s.agreed {
		s.spoiled = fmt.Sprintf("SASL mechanism '%s' requested by client is not supported for re-authentication of mechanism '%s'", mechanism, s.agreed)
		return false
	}
	s.mechanism = mechanism
	return true
}

// Spoiled returns the reason for which the next message ends the connection; empty if none.
func (s *Session) Spoiled() string { return s.spoiled }

// Succeed ends an exchange at the time now. The client is authenticated as principal until expires,
// the end of its credentials, or for most, if that is earlier; zero means no limit. It returns the
// resulting lifetime, zero for no limit, and an error, for the client, if the principal differs
// from the previous one.
func (s *Session) Succeed(principal string, now, expires time.Time, most time.Duration) (lifetime time.Duration, err error) {
	if s.principal != "" && principal != s.principal {
		from, to := dotted(s.principal), dotted(principal)
		//lint:ignore ST1005 Kafka's words, which clients print
		return 0, fmt.Errorf("Cannot change principals during re-authentication from %s: %s", from, to)
	}
	s.principal, s.agreed, s.stage, s.expires = principal, s.mechanism, stageDone, time.Time{}
	if !expires.IsZero() {
		s.expires = expires
		if expires.Before(now) {
			s.expires = now
		}
	}
	if latest := now.Add(most); most > 0 && (s.expires.IsZero() || latest.Before(s.expires)) {
		s.expires = latest
	}
	if s.expires.IsZero() {
		return 0, nil
	}
	return s.expires.Sub(now), nil
}

// dotted returns a principal in the form of Kafka's message, User.alice.
func dotted(principal string) string {
	for i := range len(principal) {
		if principal[i] == ':' {
			return principal[:i] + "." + principal[i+1:]
		}
	}
	return principal
}

// Fail ends the session: no further request is served.
func (s *Session) Fail() { s.stage = stageFailed }
