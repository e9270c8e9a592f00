package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// authentication is the state of SASL on one connection. The goroutine of run reads session before
// each request, and the handlers of SASL change it. Their accesses do not overlap: see settle.
type authentication struct {
	cfg      *SASL
	session  sasl.Session
	exchange exchange // in progress; nil if none

	busy bool // a handler of SASL was started, and may still run; for run
}

// errRefused ends a connection after a request that the SASL session does not allow.
var errRefused = errors.New("kafka: unexpected request during SASL authentication")

// settle waits until no handler uses the session.
func (c *conn) settle() error {
	a := c.sasl
	if !a.busy {
		return nil
	}
	if err := c.transport.AwaitPending(0); err != nil {
		return err
	}
	a.busy = false
	return nil
}

// admit returns the verdict on a request on a connection with SASL. An error ends the connection.
// Otherwise the request is answered: by a handler, which reads the verdict, or by refuse. A later
// request may get another verdict before this one is served.
func (c *conn) admit(r *transport.Request) (sasl.Verdict, error) {
	if err := c.settle(); err != nil {
		return sasl.Close, err
	}
	a := c.sasl
	verdict := a.session.Admit(r.Key(), time.Now())
	key := Key(r.Key())
	switch verdict {
	case sasl.Serve:
		a.busy = !a.session.Authenticated()
		return verdict, nil
	case sasl.Illegal:
		return verdict, nil
	case sasl.Refuse:
		served := c.s.apis[r.Key()]
		if served != nil && r.Version() >= served.min && r.Version() <= served.max {
			return verdict, nil
		}
		fallthrough
	case sasl.HangUp:
		c.failed(fmt.Errorf("%w: %v", errRefused, key))
		c.holdBack()
		return verdict, errRefused
	}
	c.failed(fmt.Errorf("%w: %v: the session has expired, or it is one too many", errRefused, key))
	return verdict, errRefused
}

// refuse rejects a request of any API that arrives instead of a message of the mechanism, and
// closes the connection. Kafka: SaslServerAuthenticator.handleSaslToken.
func (e *execution) refuse() {
	e.conn.failed(fmt.Errorf("%w: %v", errRefused, e.api.key))
	e.conn.holdBack()
	if p, ok := e.req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		e.fail() // the request has no response
		return
	}
	e.last = true
	text := "Unexpected Kafka request of type " + javaName(e.req) + " during SASL authentication."
	e.finish(errorreply.Whole(e.req, int16(IllegalSASLState), text, "Request is not valid given the current SASL state."), transport.Caller)
}

// javaName returns Kafka's name of a request's API, for example DESCRIBE_ACLS. Kafka: ApiKeys.
func javaName(req kmsg.Request) string {
	switch Key(req.Key()) {
	case SaslHandshake:
		return "SASL_HANDSHAKE"
	case SaslAuthenticate:
		return "SASL_AUTHENTICATE"
	case AlterPartitionReassignments: // kmsg has other names for these
		return "ALTER_PARTITION_REASSIGNMENTS"
	case InitProducerID:
		return "INIT_PRODUCER_ID"
	}
	name := []rune(strings.NewReplacer("ACLs", "Acls", "SCRAM", "Scram").Replace(kmsg.NameForKey(req.Key())))
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
	}
	return b.String()
}

// holdBack waits for FailureDelay, or until the connection drains, before a failure is reported.
func (c *conn) holdBack() {
	t := time.NewTimer(c.sasl.cfg.FailureDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.transport.Waiting().Done():
	}
}

// failed ends the session and logs the failed authentication.
func (c *conn) failed(err error) {
	c.sasl.session.Fail()
	c.loginFailed(err, "mechanism", c.sasl.session.Mechanism())
}

// advance passes a client's message to the mechanism. lifetime is the time for which the client is
// authenticated: 0 means no limit, or not authenticated yet. After an error, the third result is
// the text for the client.
func (c *conn) advance(ctx context.Context, token []byte) (answer []byte, lifetime time.Duration, told string, err error) {
	a := c.sasl
	var who *identity
	if len(token) > a.exchange.longest() {
		err = errLongToken
	} else {
		answer, who, err = a.exchange.step(ctx, token)
	}
	if err == nil && who != nil {
		p := Principal{Type: PrincipalTypeUser, Name: who.user, TokenAuthenticated: who.token}
		if lifetime, err = a.session.Succeed(p.String(), time.Now(), who.expires, a.cfg.MaxReauth); err == nil {
			a.exchange = nil
			c.setPrincipal(p)
			c.own()
			c.transport.Trust()
			c.s.log.Info("connection authenticated", "remote", c.host, "conn", c.id, "listener", c.listener, "mechanism", a.session.Mechanism(), "principal", p, "lifetime", lifetime)
			return answer, lifetime, "", nil
		}
		err = sasl.Told(err.Error())
	}
	if err == nil {
		return answer, 0, "", nil
	}
	during := "authentication"
	if a.session.Again() {
		during = "re-authentication"
	}
	var say sasl.Told
	if told = "Authentication failed during " + during + " due to invalid credentials with SASL mechanism " + a.session.Mechanism(); errors.As(err, &say) {
		told = string(say)
	}
	c.failed(err)
	return nil, 0, told, err
}

// serveTokens serves the mechanism's messages that are sent without SaslAuthenticate, each after
// its size, as after version 0 of SaslHandshake. It returns when the mechanism has finished, or if
// no such message is expected.
func (c *conn) serveTokens() error {
	a := c.sasl
	for {
		if err := c.settle(); err != nil || !a.session.Raw() {
			return err
		}
		r, err := c.transport.Token(a.cfg.MaxReceiveBytes)
		if err != nil {
			return err
		}
		if a.session.Spoiled() != "" {
			c.failed(errors.New(a.session.Spoiled()))
			c.holdBack()
			r.Drop()
			return errRefused
		}
		answer, _, _, err := c.advance(c.transport.Waiting(), r.Bytes)
		if err != nil {
			c.holdBack() // without a response: these messages have no field for an error
			r.Drop()
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		r.Enqueue()
		r.Answer(transport.Answer{Pieces: [][]byte{append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)}}, transport.Caller)
	}
}
