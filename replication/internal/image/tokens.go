package image

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
)

// Limits of the delegation tokens, which are in the memory of all brokers.
const (
	maxTokens     = 50_000
	maxTokenBytes = 16 << 20 // of ids and names
	maxOneToken   = 64 << 10 // of the names of one token

	// maxForgotten is the maximum number of expired tokens that one change removes.
	maxForgotten = 1000
)

// ErrTokenNotFound rejects a change of a delegation token that does not exist.
var ErrTokenNotFound = errors.New("replication: no such delegation token")

// A Token is the cluster's state of a delegation token, which represents its owner (KIP-48). It
// does not have the token's secret part. Times are in whole milliseconds.
type Token struct {
	ID               string
	Owner, Requester string   // principals, User:alice
	Renewers         []string // principals that may renew it, besides the owner; never changed
	Issued, Max      time.Time
	Expires          time.Time // not after Max; a renewal moves it
}

// Live reports whether the token is valid at a time. As in Kafka, it is valid in the millisecond in
// which it expires.
func (t Token) Live(now time.Time) bool { return !t.Expires.Before(now) && !t.Max.Before(now) }

func (t Token) bytes() int {
	n := len(t.ID) + len(t.Owner) + len(t.Requester)
	for _, r := range t.Renewers {
		n += len(r)
	}
	return n
}

// Tokens are the delegation tokens of an image. A published value does not change. nil is empty.
type Tokens struct {
	byID  map[string]Token
	bytes int
}

// Get returns the token with an id, and whether there is one. The token may have expired.
func (s *Tokens) Get(id string) (Token, bool) {
	if s == nil {
		return Token{}, false
	}
	t, ok := s.byID[id]
	return t, ok
}

// Len returns the number of tokens.
func (s *Tokens) Len() int {
	if s == nil {
		return 0
	}
	return len(s.byID)
}

// All yields the tokens in the order of their ids.
func (s *Tokens) All() iter.Seq[Token] {
	return func(yield func(Token) bool) {
		if s == nil {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(s.byID)) {
			if !yield(s.byID[id]) {
				return
			}
		}
	}
}

// Tokens returns the delegation tokens, or nil if there are none.
func (m *Image) Tokens() *Tokens { return m.tokens }

// setToken replaces the token with an id; nil removes it.
func (m *Image) setToken(id string, t *Token) {
	if !m.ownsTokens {
		own := &Tokens{byID: map[string]Token{}}
		if m.tokens != nil {
			own.byID, own.bytes = maps.Clone(m.tokens.byID), m.tokens.bytes
		}
		m.tokens, m.ownsTokens = own, true
	}
	m.tokens.bytes -= m.tokens.byID[id].bytes()
	if delete(m.tokens.byID, id); t != nil {
		m.tokens.byID[id] = *t
		m.tokens.bytes += t.bytes()
	}
	if len(m.tokens.byID) == 0 {
		m.tokens, m.ownsTokens = nil, false
	}
}

func (m *Image) applyToken(rec *metarecord.DelegationToken) error {
	if rec.TokenID == "" || rec.Owner == "" || rec.Requester == "" {
		return fmt.Errorf("delegation token %q of owner %q, requested by %q", rec.TokenID, rec.Owner, rec.Requester)
	}
	m.setToken(rec.TokenID, &Token{
		ID: rec.TokenID, Owner: rec.Owner, Requester: rec.Requester, Renewers: rec.Renewers,
		Issued: time.UnixMilli(rec.IssueTimestamp), Max: time.UnixMilli(rec.MaxTimestamp), Expires: time.UnixMilli(rec.ExpirationTimestamp),
	})
	return nil
}

func (m *Image) applyRemoveToken(rec *metarecord.RemoveDelegationToken) error {
	if _, ok := m.tokens.Get(rec.TokenID); !ok {
		return fmt.Errorf("removal of the unknown delegation token %q", rec.TokenID)
	}
	m.setToken(rec.TokenID, nil)
	return nil
}

// tokenRecords returns the records that create the tokens in an empty image.
func (m *Image) tokenRecords() (recs []metarecord.Record) {
	for t := range m.tokens.All() {
		recs = append(recs, t.Record())
	}
	return recs
}

// Record returns the record that creates the token.
func (t Token) Record() metarecord.Record {
	return &metarecord.DelegationToken{
		TokenID: t.ID, Owner: t.Owner, Requester: t.Requester, Renewers: t.Renewers,
		IssueTimestamp: t.Issued.UnixMilli(), MaxTimestamp: t.Max.UnixMilli(), ExpirationTimestamp: t.Expires.UnixMilli(),
	}
}

// CreateToken returns the records that create a token, which must be new, and that remove expired
// ones. A *PolicyError rejects too many tokens of all owners, more than half of them of one owner,
// and names that are too long or missing.
func (m *Image) CreateToken(t Token, now time.Time) ([]metarecord.Record, error) {
	if _, ok := m.tokens.Get(t.ID); ok {
		return nil, fmt.Errorf("%w: delegation token %q", ErrDuplicateResource, t.ID)
	}
	if t.ID == "" || t.Owner == "" || t.Requester == "" {
		return nil, policy("a delegation token has an id, an owner and who asked for it")
	}
	recs, count, bytes := m.expiredTokens("", now), m.tokens.Len(), 0
	if m.tokens != nil {
		bytes = m.tokens.bytes
	}
	if t.bytes() > maxOneToken {
		return nil, policy("the names of a delegation token have at most %d bytes", maxOneToken)
	}
	if count-len(recs) >= maxTokens || bytes+t.bytes() > maxTokenBytes {
		return nil, policy("there are %d delegation tokens, with names of %d bytes; there may be %d, and %d bytes", count, bytes, maxTokens, maxTokenBytes)
	}
	own, ownBytes := 1, t.bytes()
	if m.tokens != nil {
		for _, other := range m.tokens.byID {
			if other.Owner == t.Owner && other.Live(now) {
				own, ownBytes = own+1, ownBytes+other.bytes()
			}
		}
	}
	if own > maxTokens/2 || ownBytes > maxTokenBytes/2 {
		return nil, policy("one owner may have %d delegation tokens, with names of %d bytes", maxTokens/2, maxTokenBytes/2)
	}
	return append(recs, t.Record()), nil
}

// AlterToken returns the records that change a token's expiry to until, or to its Max if that is
// earlier. If until is zero they remove the token.
func (m *Image) AlterToken(id string, until, now time.Time) ([]metarecord.Record, error) {
	t, ok := m.tokens.Get(id)
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrTokenNotFound, id)
	}
	recs := m.expiredTokens(id, now)
	if until.IsZero() {
		return append(recs, &metarecord.RemoveDelegationToken{TokenID: id}), nil
	}
	if t.Expires = until; until.After(t.Max) {
		t.Expires = t.Max
	}
	return append(recs, t.Record()), nil
}

// expiredTokens returns the records that remove expired tokens except the given one. If there are
// many, the first to expire are removed. Kafka removes them once an hour. Here it is part of other
// changes, so that no timer is needed.
func (m *Image) expiredTokens(except string, now time.Time) (recs []metarecord.Record) {
	var gone []Token
	for t := range m.tokens.All() {
		if t.ID != except && !t.Live(now) {
			gone = append(gone, t)
		}
	}
	slices.SortStableFunc(gone, func(a, b Token) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID)) })
	for _, t := range gone[:min(len(gone), maxForgotten)] {
		recs = append(recs, &metarecord.RemoveDelegationToken{TokenID: t.ID})
	}
	return recs
}
