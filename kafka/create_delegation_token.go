package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// errorTimestamp is the value of timestamps in the response to a rejected request about a token.
// Kafka: DelegationTokenManager.ERROR_TIMESTAMP.
const errorTimestamp = -1

// createDelegationToken creates a token for the client. Since version 3 (KIP-373) the owner can be
// another user, for whom the client needs CreateTokens. Version 2 is flexible. Key 38, versions 1
// to 3.
//
// Deviations: an owner whose type is not User is rejected with INVALID_PRINCIPAL_TYPE. Kafka
// accepts any type, and a client with that token becomes the User of that name. The number and
// size of tokens are bounded, see replication.Cluster.CreateDelegationToken: POLICY_VIOLATION.
func (c *call) createDelegationToken(req *kmsg.CreateDelegationTokenRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
	requester, owner := *c.principal, *c.principal
	if req.Version >= 3 && req.OwnerPrincipalName != nil && *req.OwnerPrincipalName != "" {
		owner = Principal{Name: *req.OwnerPrincipalName}
		if req.OwnerPrincipalType != nil {
			owner.Type = *req.OwnerPrincipalType
		}
	}
	resp.PrincipalType, resp.PrincipalName = owner.Type, owner.Name
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = requester.Type, requester.Name
	resp.HMAC = []byte{}
	refused := func(code Code) kmsg.Response {
		resp.ErrorCode = int16(code)
		resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = errorTimestamp, errorTimestamp, errorTimestamp
		return resp
	}
	switch {
	case !c.mayHaveTokens():
		return refused(DelegationTokenRequestNotAllowed)
	case !owner.Is(requester) && !c.allows(acl.CreateTokens, acl.User, owner.String()):
		return refused(DelegationTokenAuthorizationFailed)
	case owner.Type != PrincipalTypeUser:
		return refused(InvalidPrincipalType)
	}
	var renewers []string
	for _, r := range req.Renewers {
		if r.PrincipalType != PrincipalTypeUser {
			return refused(InvalidPrincipalType)
		}
		renewers = append(renewers, Principal{Type: r.PrincipalType, Name: r.PrincipalName}.String())
	}
	settings := c.s.cfg.DelegationTokens.withDefaults()
	if settings.Secret == "" {
		resp.ErrorCode = int16(DelegationTokenAuthDisabled)
		return resp
	}
	lifetime := settings.MaxLifetime
	if req.MaxLifetimeMillis > 0 {
		lifetime = milliseconds(req.MaxLifetimeMillis, lifetime)
	}
	now := time.Now().Truncate(time.Millisecond)
	t := replication.DelegationToken{
		ID: topic.NewID().String(), Owner: owner.String(), Requester: requester.String(), Renewers: renewers,
		Issued: now, Max: now.Add(lifetime), Expires: now.Add(min(lifetime, settings.RenewPeriod)),
	}
	if err := c.s.cluster.CreateDelegationToken(c.ctx, t); err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = t.Issued.UnixMilli(), t.Expires.UnixMilli(), t.Max.UnixMilli()
	resp.TokenID, resp.HMAC = t.ID, settings.hmac(t.ID)
	return resp
}
