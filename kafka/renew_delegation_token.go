package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// renewDelegationToken extends a token by the requested time from now on, at most by
// DelegationTokens.RenewPeriod. Without a positive time it extends the token by RenewPeriod. The
// token's owner and renewers may do so. Version 2 is flexible. Key 39, versions 1 and 2.
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
