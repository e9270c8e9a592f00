package kafka

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/replication"
)

// describeDelegationToken returns tokens, with their passwords: all, or those that concern one of
// the given principals. The client gets tokens that it owns, requested or may renew, tokens that
// it may Describe, and tokens of users for whom it may DescribeTokens. Version 2 is flexible, 3
// adds the requester (KIP-373). Tokens are sorted by id; Kafka has no order. Expired tokens are
// left out; Kafka returns them for up to an hour more. Key 41, versions 1 to 3.
func (c *call) describeDelegationToken(req *kmsg.DescribeDelegationTokenRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
	settings := c.s.cfg.DelegationTokens
	switch {
	case !c.mayHaveTokens():
		resp.ErrorCode = int16(DelegationTokenRequestNotAllowed)
		return resp
	case settings.Secret == "":
		resp.ErrorCode = int16(DelegationTokenAuthDisabled)
		return resp
	}
	owners := map[string]bool{}
	for _, o := range req.Owners {
		owners[Principal{Type: o.PrincipalType, Name: o.PrincipalName}.String()] = true
	}
	now := time.Now()
	for t := range c.s.cluster.DelegationTokens().All() {
		if t.Live(now) && (req.Owners == nil || concernsAny(t, owners)) && c.maySeeToken(t) {
			resp.TokenDetails = append(resp.TokenDetails, describedToken(t, settings))
		}
	}
	return resp
}

// concernsAny reports whether a token concerns one of the principals.
func concernsAny(t replication.DelegationToken, principals map[string]bool) bool {
	return principals[t.Requester] || principals[t.Owner] || slices.ContainsFunc(t.Renewers, func(r string) bool { return principals[r] })
}

// concerns reports whether a principal owns a token, requested it or may renew it. Kafka:
// TokenInformation.ownerOrRenewer.
func concerns(t replication.DelegationToken, principal string) bool {
	return t.Requester == principal || renews(t, principal)
}

// maySeeToken reports whether the client may see a token. Kafka:
// DelegationTokenManager.filterToken.
func (c *call) maySeeToken(t replication.DelegationToken) bool {
	return concerns(t, c.principal.String()) || c.allows(acl.Describe, acl.DelegationToken, t.ID) || c.allows(acl.DescribeTokens, acl.User, t.Owner)
}

func describedToken(t replication.DelegationToken, settings DelegationTokens) kmsg.DescribeDelegationTokenResponseTokenDetail {
	d := kmsg.NewDescribeDelegationTokenResponseTokenDetail()
	d.PrincipalType, d.PrincipalName = principalParts(t.Owner)
	d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName = principalParts(t.Requester)
	d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp = t.Issued.UnixMilli(), t.Expires.UnixMilli(), t.Max.UnixMilli()
	d.TokenID, d.HMAC = t.ID, settings.hmac(t.ID)
	for _, r := range t.Renewers {
		dr := kmsg.NewDescribeDelegationTokenResponseTokenDetailRenewer()
		dr.PrincipalType, dr.PrincipalName = principalParts(r)
		d.Renewers = append(d.Renewers, dr)
	}
	return d
}
