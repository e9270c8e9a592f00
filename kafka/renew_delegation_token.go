package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// renewDelegationToken puts off when a token expires, which its owner and its renewers may do: for
// as long as they ask, and at most DelegationTokens.RenewPeriod from now on; as long as that if
// they do not say, or ask for none. Version 2 is flexible. Key 39, versions 1 and 2.
func (c *call) renewDelegationToken(req *kmsg.RenewDelegationTokenRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.RenewDelegationTokenResponse)
	if !c.mayHaveTokens() {
		resp.ErrorCode, resp.ExpiryTimestamp = int16(DelegationTokenRequestNotAllowed), errorTimestamp
		return resp
	}
	period := c.s.cfg.DelegationTokens.withDefaults().RenewPeriod
	if req.RenewTimeMillis > 0 {
		period = milliseconds(req.RenewTimeMillis, period)
	}
	expires, err := c.changeToken(req.HMAC, func(_ replication.DelegationToken, now time.Time) time.Time { return now.Add(period) })
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.ExpiryTimestamp = expires.UnixMilli()
	return resp
}
