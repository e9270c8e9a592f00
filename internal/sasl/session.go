package sasl

import (
	"fmt"
	"time"
)

// API keys that mean something before a client is authenticated.
const (
	keySaslHandshake    = 17
	keyApiVersions      = 18
	keySaslAuthenticate = 36
)

// A Verdict is what becomes of a request.
type Verdict uint8

// Verdicts.
const (
	Serve   Verdict = iota
	Refuse          // it is answered with ILLEGAL_SASL_STATE, then the connection is closed
	HangUp          // the connection is closed like after a failure, without an answer
	Close           // at once
	Illegal         // it is answered with ILLEGAL_SASL_STATE, and the connection goes on
)

// minReauth is the least time between two re-authentications of a connection. Kafka:
// KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
const minReauth = time.Second

type stage uint8

const (
	stageInitial   stage = iota // ApiVersions or SaslHandshake
	stageHandshake              // SaslHandshake
	stageToken                  // what the mechanism says, to its end
	stageDone
	stageFailed
)

// A Session is how far one connection is with SASL. The zero value is the beginning.
// Kafka: SaslServerAuthenticator.SaslState.
type Session struct {
	stage     stage
	again     bool // re-authentication: it was done before
	raw       bool // tokens come without SaslAuthenticate around them (SaslHandshake 0)
	spoiled   string
	mechanism string // asked for last
	agreed    string // that the client is authenticated by
	principal string
	expires   time.Time // zero: never
	began     time.Time // when the last re-authentication was begun
}

// Authenticated reports whether requests of all kinds are served: after the first authentication,
// and not during the next one.
func (s *Session) Authenticated() bool { return s.stage == stageDone }

// Raw reports whether the next bytes are a size and that many bytes of the mechanism.
func (s *Session) Raw() bool { return s.stage == stageToken && s.raw }

// Mechanism is the one of the authentication under way, or of the last one.
func (s *Session) Mechanism() string { return s.mechanism }

// Again reports whether the authentication under way is not the connection's first.
func (s *Session) Again() bool { return s.again }

// Principal is who the client was authenticated as last; empty: nobody.
func (s *Session) Principal() string { return s.principal }

// Admit says what becomes of a request with the key of an API, at the time now.
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

// admitDone is Admit for a client that is authenticated.
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

// Versions says that ApiVersions was answered without an error.
func (s *Session) Versions() {
	if s.stage == stageInitial {
		s.stage = stageHandshake
	}
}

// Handshake takes in a SaslHandshake of a version whose mechanism is enabled, and says whether an
// exchange begins: a re-authentication by another mechanism than the first is answered as if it
// could, and ends with the next message.
func (s *Session) Handshake(mechanism string, version int16) bool {
	s.stage, s.raw = stageToken, version == 0
	if s.again && mechanism != s.agreed {
		s.spoiled = fmt.Sprintf("SASL mechanism '%s' requested by client is not supported for re-authentication of mechanism '%s'", mechanism, s.agreed)
		return false
	}
	s.mechanism = mechanism
	return true
}

// Spoiled says why the next message ends the connection; empty: it does not.
func (s *Session) Spoiled() string { return s.spoiled }

// Succeed ends an exchange at the time now: the client is the principal, until the earlier of
// expires, of its credentials, and most from now; zero means for ever. It returns how long that is,
// zero for ever, and an error, to be told to the client, if the principal is another one than
// before.
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

// dotted is a principal as Kafka's message has it, User.alice.
func dotted(principal string) string {
	for i := range len(principal) {
		if principal[i] == ':' {
			return principal[:i] + "." + principal[i+1:]
		}
	}
	return principal
}

// Fail ends the session: nothing more is served.
func (s *Session) Fail() { s.stage = stageFailed }
