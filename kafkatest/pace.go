package kafkatest

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

const (
	barrenAtOnce = 10                     // limit of barren responses at one instant
	barrenPause  = 100 * time.Microsecond // by which the delay grows with each further one
	barrenTold   = 1000                   // number at which the client is logged, after some 50 s
	mostAtOnce   = 1000                   // limit of responses of any kind at one instant
	usualPause   = time.Millisecond       // delay of each further one
	mostPaced    = 100_000                // limit of tracked connections, at which all are dropped
)

// A pace tracks clients that send a request at the very instant of the previous response. On a real
// network each round takes time, so a loop of a client ends when its metadata is fresh or a
// condition of its user holds. In a testing/synctest bubble no time passes while any goroutine
// runs: one such client would stop the clock, and with it the timers that would end its loop. So
// after too many responses at one instant, further ones are delayed.
//
// With a running clock no request comes at the instant of a response. Guarded by interceptor.mu;
// the zero value is ready.
type pace struct {
	conns map[uint64]*paced
}

// paced counts the responses of a connection since the last time that the clock moved between its
// requests and responses.
type paced struct {
	answered time.Time // time of the last response
	due      time.Time // time of the last response if only pace delays it
	all      int       // number of responses
	barren   int       // number of barren ones: errors and empty fetches

	last kafka.Exchange // the last barren one, without request and response
	text string         // its error codes
}

// request returns the delay of the response to a request.
func (p *pace) request(x *kafka.Exchange) (pause time.Duration) {
	c := p.conns[x.Conn]
	if c == nil {
		return 0
	}
	switch {
	case x.Received.After(c.answered):
		c.all, c.barren = 0, 0
	case c.barren > barrenAtOnce:
		pause = time.Duration(c.barren-barrenAtOnce) * barrenPause
	case c.all > mostAtOnce:
		pause = usualPause
	}
	c.due = x.Received.Add(pause)
	return pause
}

// response counts a response. It returns a line for the test's log; "" if there is nothing to log.
func (p *pace) response(x *kafka.Exchange) (say string) {
	c := p.conns[x.Conn]
	if c == nil {
		if p.conns == nil || len(p.conns) >= mostPaced {
			p.conns = map[uint64]*paced{}
		}
		c = &paced{due: x.Received}
		p.conns[x.Conn] = c
	}
	c.answered = x.Answered
	if x.Answered.After(c.due) { // the request waited, so the clock moves
		c.all, c.barren = 0, 0
		return ""
	}
	c.all++
	if !barren(x.Response) {
		return ""
	}
	c.barren++
	c.last, c.text = *x, codesOf(x.Response)
	c.last.Request, c.last.Response = nil, nil
	if c.barren == barrenTold {
		return c.String()
	}
	return ""
}

// String describes a client that sends requests without a pause.
func (c *paced) String() string {
	text := c.text
	if text == "" {
		text = " nothing"
	}
	return fmt.Sprintf("client %q on connection %d asks in a loop without a pause: %d answers that were of no use to it, the last to %s v%d,%s",
		c.last.ClientID, c.last.Conn, c.barren, kafka.Key(c.last.Key), c.last.Version, text)
}

// loops describes the clients that send requests without a pause.
func (p *pace) loops() (text string) {
	for _, c := range p.conns {
		if c.barren > barrenAtOnce {
			text += c.String() + "\n"
		}
	}
	return text
}

// barren reports whether a response is an error or an empty fetch.
func barren(resp kmsg.Response) bool {
	switch resp := resp.(type) {
	case nil:
		return false
	case *kmsg.FetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if len(resp.Topics[i].Partitions[j].RecordBatches) > 0 {
					return false
				}
			}
		}
		return true
	case *kmsg.ShareFetchResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if len(resp.Topics[i].Partitions[j].Records) > 0 {
					return false
				}
			}
		}
		return true
	}
	return len(Codes(resp)) > 0
}
