package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// UnsecuredJWTForTests is a TokenValidator that accepts JSON Web Tokens without a signature (RFC
// 7519, "alg":"none"). Anyone can write such a token for any user, so it is only for tests of
// clients, which can create such tokens (Kafka: OAuthBearerUnsecuredValidatorCallbackHandler). The
// claims sub, the user, and exp are required. Times are seconds since the Unix epoch.
type UnsecuredJWTForTests struct{}

// claims are the claims that are validated.
type claims struct {
	Subject  string   `json:"sub"`
	Expires  *float64 `json:"exp"`
	IssuedAt *float64 `json:"iat,omitempty"`
}

// ValidateToken implements TokenValidator.
func (UnsecuredJWTForTests) ValidateToken(_ context.Context, token string) (Token, error) {
	invalid := &TokenError{Status: "invalid_token"}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[2] != "" {
		return Token{}, invalid
	}
	var header struct {
		Alg string `json:"alg"`
	}
	var c claims
	if !unmarshalPart(parts[0], &header) || header.Alg != "none" || !unmarshalPart(parts[1], &c) {
		return Token{}, invalid
	}
	const mostSeconds = 1 << 40
	if c.Subject == "" || c.Expires == nil || !(*c.Expires > 0 && *c.Expires < mostSeconds) {
		return Token{}, invalid
	}
	expires := time.UnixMilli(int64(*c.Expires * 1000))
	if !expires.After(time.Now()) || c.IssuedAt != nil && *c.IssuedAt > *c.Expires {
		return Token{}, invalid
	}
	return Token{User: c.Subject, Expires: expires}, nil
}

func unmarshalPart(part string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
	return err == nil && json.Unmarshal(b, v) == nil
}

// NewUnsecuredJWTForTests returns a token for a user that UnsecuredJWTForTests accepts until
// expires.
func NewUnsecuredJWTForTests(user string, expires time.Time) string {
	at, now := float64(expires.UnixMilli())/1000, float64(time.Now().UnixMilli())/1000
	body, _ := json.Marshal(claims{Subject: user, Expires: &at, IssuedAt: &now}) // numbers and text
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
}
