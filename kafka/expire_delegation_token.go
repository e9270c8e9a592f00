package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
)

// expireDelegationToken sets the expiry of a token to a time from now, or deletes the token at
// once if the time is negative. The token's owner and renewers may do so. Connections that were
// authenticated with the token keep their former expiry. Version 2 is flexible. Key 40, versions 1
// and 2.
func (c *call) expireDelegationToken(req *kmsg.ExpireDelegationTokenRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ExpireDelegationTokenResponse)
	if !c.mayHaveTokens() {
		resp.ErrorCode, resp.ExpiryTimestamp = int16(DelegationTokenRequestNotAllowed), errorTimestamp
		return resp
	}
	expires, err := c.changeToken(req.HMAC, func(t replication.DelegationToken, now time.Time) time.Time {
		if req.ExpiryPeriodMillis < 0 {
			return time.Time{}
		}
		return now.Add(milliseconds(req.ExpiryPeriodMillis, t.Max.Sub(now)))
	})
	switch {
	case err != nil:
		resp.ErrorCode = c.errorCode(err)
	case expires.IsZero():
		resp.ExpiryTimestamp = req.ExpiryPeriodMillis // as in Kafka
	default:
		resp.ExpiryTimestamp = expires.UnixMilli()
	}
	return resp
}
