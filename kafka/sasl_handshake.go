package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/sasl"
)

// saslHandshake selects the mechanism for the client's next authentication, which may be a
// repeated one (KIP-368). After version 0 the mechanism's messages follow as they are, after
// version 1 in SaslAuthenticate. If the mechanism is not offered, the response lists the offered
// ones, and the connection is closed. On a listener without SASL, or out of turn, the error is
// ILLEGAL_SASL_STATE. Key 17, versions 0 and 1.
func (c *call) saslHandshake(req *kmsg.SASLHandshakeRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	a := c.conn.sasl
	if a == nil || c.verdict != sasl.Serve {
		resp.ErrorCode = int16(IllegalSASLState)
		return resp
	}
	resp.SupportedMechanisms = a.cfg.mechanisms()
	ex := c.conn.newExchange(req.Mechanism)
	if ex == nil {
		resp.ErrorCode = int16(UnsupportedSASLMechanism)
		c.conn.failed(fmt.Errorf("kafka: SASL mechanism %.64q is not offered", req.Mechanism))
		c.conn.holdBack()
		c.last = true
		return resp
	}
	if a.session.Handshake(req.Mechanism, c.version) {
		a.exchange = ex
	}
	return resp
}

// saslAuthenticate processes one message of the mechanism. Version 1 adds to the response the time
// for which the client is authenticated. A failure is answered after SASL.FailureDelay and closes
// the connection. Key 36, versions 0 to 2.
func (c *call) saslAuthenticate(req *kmsg.SASLAuthenticateRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	refused := func(code Code, text string) kmsg.Response {
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
		return resp
	}
	a := c.conn.sasl
	if a == nil || c.verdict != sasl.Serve || a.exchange == nil {
		return refused(IllegalSASLState, "SaslAuthenticate request received after successful authentication")
	}
	answer, lifetime, told, err := c.conn.advance(c.ctx, req.SASLAuthBytes)
	if err != nil {
		c.conn.holdBack()
		c.last = true
		return refused(SASLAuthenticationFailed, told)
	}
	resp.SASLAuthBytes, resp.SessionLifetimeMillis = answer, lifetime.Milliseconds()
	return resp
}
