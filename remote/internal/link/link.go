// Package link sends requests to the brokers of a cluster. It is the only package of remote that
// uses a client library: package kgo makes connections, logs in, chooses the version of each
// request, and waits when a broker throttles the client.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

// Config describes a Client. Brokers and RequestTimeout are required.
type Config struct {
	Brokers        []string
	ClientID       string
	TLS            *tls.Config
	SASL           []sasl.Mechanism
	Dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	Hooks          []kgo.Hook
	RequestTimeout time.Duration // wait for a response, in addition to the wait that a request names

	// Unacknowledged makes a client for produce requests with acks=0, which have no response. It
	// sends no other produce requests.
	Unacknowledged bool
}

// A Client has connections of its own: to each broker one for fetches, one for joining groups, one
// for produce requests, and one for everything else. A broker responds to the requests of one
// connection in their order. All methods are safe for concurrent use.
type Client struct {
	kgo     *kgo.Client
	silence silence

	mu           sync.Mutex // guards the fields below
	coordinators map[coordinatorKey]int32
	closed       bool

	wg sync.WaitGroup // goroutines of requests
}

// CoordinatorType is the kind of a coordinator. Kafka: FindCoordinatorRequest.CoordinatorType.
type CoordinatorType int8

// Kinds of coordinators.
const (
	GroupCoordinator       CoordinatorType = 0
	TransactionCoordinator CoordinatorType = 1
)

type coordinatorKey struct {
	kind CoordinatorType
	name string
}

// Open returns a client. It does not connect to a broker yet.
func Open(cfg Config) (*Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...), kgo.ClientID(cfg.ClientID), kgo.SoftwareNameAndVersion("strata", "remote"), kgo.DisableClientMetrics(),
		kgo.RequestTimeoutOverhead(cfg.RequestTimeout), kgo.RetryTimeout(3 * cfg.RequestTimeout), kgo.DialTimeout(cfg.dialTimeout()),
		kgo.WithHooks(cfg.Hooks...), kgo.BrokerMaxReadBytes(maxResponse),
	}
	if len(cfg.SASL) > 0 {
		opts = append(opts, kgo.SASL(cfg.SASL...))
	}
	switch {
	case cfg.Dial != nil && cfg.TLS != nil:
		opts = append(opts, kgo.Dialer(cfg.bounded(cfg.dialTLS)))
	case cfg.Dial != nil:
		opts = append(opts, kgo.Dialer(cfg.bounded(cfg.Dial)))
	case cfg.TLS != nil:
		opts = append(opts, kgo.DialTLSConfig(cfg.TLS))
	}
	if cfg.Unacknowledged {
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	c := &Client{coordinators: map[coordinatorKey]int32{}}
	c.silence.patience = 3 * cfg.RequestTimeout
	var err error
	if c.kgo, err = kgo.NewClient(append(opts, kgo.WithHooks(&c.silence))...); err != nil {
		return nil, err
	}
	return c, nil
}

// dialTimeout bounds the time to make a connection.
func (cfg *Config) dialTimeout() time.Duration { return min(cfg.RequestTimeout, maxDialTimeout) }

// bounded returns dial with its time bounded. Package kgo bounds only its own way to dial.
func (cfg *Config) bounded(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.dialTimeout())
		defer cancel()
		return dial(ctx, network, addr)
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialTLS makes a connection with Dial, and uses TLS on it.
func (cfg *Config) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := cfg.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	t := cfg.TLS.Clone()
	if t.ServerName == "" {
		if t.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			t.ServerName = addr
		}
	}
	c := tls.Client(raw, t)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

const (
	maxDialTimeout = 10 * time.Second
	// maxResponse bounds the memory for one response. A server that does not use Kafka's protocol
	// is recognized by the size in its first bytes.
	maxResponse = 256 << 20
)

// Close closes the connections. Requests without a response fail. It returns when no goroutine of a
// request is left.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.kgo.Close()
	c.wg.Wait()
}

// spawn starts a goroutine of a request. It returns false if the client is closed.
func (c *Client) spawn(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(fn)
	}
	return !c.closed
}

// Any sends a request to any broker. It sends it again to others, for three request timeouts, until
// there is a response.
func (c *Client) Any(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.bound(ctx, func(ctx context.Context) (kmsg.Response, error) { return c.kgo.Request(ctx, req) })
}

const (
	// hedgeAfter is the time without a response after which ReadAny sends a request to another
	// broker.
	hedgeAfter = time.Second
	maxHedges  = 3
)

// ReadAny is Any for a request that changes nothing. It is sent to another broker, too, for each
// second without a response, so that one that hangs does not delay it. req returns the request of
// an attempt. spawn starts a goroutine, and returns false when the client is closing.
func (c *Client) ReadAny(ctx context.Context, spawn func(func()) bool, req func() kmsg.Request) (kmsg.Response, error) {
	return c.bound(ctx, func(ctx context.Context) (kmsg.Response, error) { return c.readAny(ctx, spawn, req) })
}

func (c *Client) readAny(ctx context.Context, spawn func(func()) bool, req func() kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan result, maxHedges)
	send := func() bool {
		return spawn(func() {
			resp, err := c.kgo.Request(ctx, req())
			got <- result{resp, err}
		})
	}
	if !send() {
		return nil, kgo.ErrClientClosed
	}
	t := time.NewTicker(hedgeAfter)
	defer t.Stop()
	for sent, ended := 1, 0; ; {
		select {
		case r := <-got:
			if ended++; r.err == nil || ended == sent {
				return r.resp, r.err
			}
		case <-t.C:
			if sent < maxHedges && send() {
				sent++
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Broker sends a request to a broker, once.
func (c *Client) Broker(ctx context.Context, id int32, req kmsg.Request) (kmsg.Response, error) {
	if waits(req) {
		return c.kgo.Broker(int(id)).Request(ctx, req)
	}
	return c.bound(ctx, func(ctx context.Context) (kmsg.Response, error) { return c.kgo.Broker(int(id)).Request(ctx, req) })
}

// waits reports whether a broker may respond to a request much later.
func waits(req kmsg.Request) bool {
	switch kmsg.Key(req.Key()) {
	case kmsg.Produce, kmsg.Fetch, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.ShareFetch:
		return true
	}
	return false
}

// Coordinator sends a request to the coordinator of a group or a transactional id, once. A broker
// that was the coordinator before may reject it: then it is sent to the present one. If that
// response states that another broker is the coordinator, too, the caller calls Moved.
func (c *Client) Coordinator(ctx context.Context, kind CoordinatorType, name string, req kmsg.Request) (kmsg.Response, error) {
	if waits(req) {
		return c.toCoordinator(ctx, kind, name, req)
	}
	return c.bound(ctx, func(ctx context.Context) (kmsg.Response, error) { return c.toCoordinator(ctx, kind, name, req) })
}

func (c *Client) toCoordinator(ctx context.Context, kind CoordinatorType, name string, req kmsg.Request) (kmsg.Response, error) {
	for again := false; ; again = true {
		id, found, err := c.coordinator(ctx, kind, name)
		if err != nil {
			return nil, err
		}
		resp, err := c.Broker(ctx, id, req)
		switch {
		case err != nil && ctx.Err() == nil:
			c.Moved(kind, name)
		case err == nil && !found && !again && notCoordinator(resp):
			c.Moved(kind, name)
			continue
		}
		return resp, err
	}
}

// Moved makes the next request find the coordinator again.
func (c *Client) Moved(kind CoordinatorType, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.coordinators, coordinatorKey{kind, name})
}

// coordinator returns the coordinator. found is false if it is a remembered one.
func (c *Client) coordinator(ctx context.Context, kind CoordinatorType, name string) (id int32, found bool, err error) {
	key := coordinatorKey{kind, name}
	c.mu.Lock()
	id, ok := c.coordinators[key]
	c.mu.Unlock()
	if ok {
		return id, false, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = int8(kind), name, []string{name}
	any, err := c.Any(ctx, req)
	if err != nil {
		return 0, false, err
	}
	resp := any.(*kmsg.FindCoordinatorResponse)
	id, code, message := resp.NodeID, resp.ErrorCode, resp.ErrorMessage
	if len(resp.Coordinators) > 0 {
		one := resp.Coordinators[0]
		id, code, message = one.NodeID, one.ErrorCode, one.ErrorMessage
	}
	if code != 0 {
		return 0, false, &CodeError{Code: code, Message: message}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.coordinators) > maxCoordinators {
		clear(c.coordinators)
	}
	c.coordinators[key] = id
	return id, true, nil
}

// maxCoordinators bounds the memory for coordinators that were found.
const maxCoordinators = 10_000

// A CodeError is an error code of a broker, in a response to a request that link made itself.
type CodeError struct {
	Code    int16
	Message *string // nil: none
}

func (e *CodeError) Error() string {
	if e.Message != nil && *e.Message != "" {
		return fmt.Sprintf("error code %d: %s", e.Code, *e.Message)
	}
	return fmt.Sprintf("error code %d", e.Code)
}
