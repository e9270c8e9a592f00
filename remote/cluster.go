package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/remote/internal/view"
	"github.com/stratalog/strata/replication"
)

// A Cluster is a cluster of brokers that is reached over a network: Apache Kafka, Redpanda, or
// strata serve. It is the argument of producer.New, consumer.New and consumer.Read. All methods are
// safe for concurrent use.
type Cluster struct {
	*session // of producers and of calls without a session of their own

	cfg Config
	ctx context.Context // done when closing
	end context.CancelFunc
	wg  sync.WaitGroup

	counters link.Counters

	mu       sync.Mutex // guards the fields below, and session.topics
	view     view.View
	changed  chan struct{} // closed and replaced when the version changes
	sessions map[*session]bool
	features features
	closed   bool

	refresh chan struct{} // signals that a refresh of the metadata is due; capacity 1
}

// Open connects to a cluster. It returns when a broker has responded with its metadata. It returns
// an error if none has by the end of ctx or three times Config.RequestTimeout, at most two more
// later. The caller must close the Cluster, after its producers and consumers.
//
// Errors: *topic.ConfigError, ErrUnreachable, ErrNotAuthenticated, ErrTLS, ErrNotKafka, and ctx's.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("remote: open: %w", err)
	}
	c := &Cluster{cfg: cfg, changed: make(chan struct{}), sessions: map[*session]bool{}, refresh: make(chan struct{}, 1)}
	c.ctx, c.end = context.WithCancel(context.Background())
	if c.session, err = c.newSession(consumer.Session{}, false); err != nil {
		return nil, fmt.Errorf("remote: open: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, 3*cfg.RequestTimeout)
	defer cancel()
	if err := c.connect(bounded); err != nil {
		c.session.close()
		return nil, fmt.Errorf("remote: open %v: %w", cfg.Brokers, err)
	}
	c.wg.Go(c.refreshMetadata)
	return c, nil
}

// connect fetches the features of a broker, and the metadata without topics.
func (c *Cluster) connect(ctx context.Context) error {
	if err := c.fetchFeatures(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	return c.fetchMetadata(ctx, req)
}

// OpenSession implements consumer.Opener: a consumer has connections of its own, since a broker
// responds to the requests of one connection in their order.
func (c *Cluster) OpenSession(_ context.Context, s consumer.Session) (consumer.LogBackend, func(), error) {
	opened, err := c.newSession(s, true)
	if err != nil {
		return nil, nil, fmt.Errorf("remote: %w", err)
	}
	return opened, opened.close, nil
}

// OpenProducer implements producer.Opener: a producer with a client id has connections of its own,
// which carry that id. The others share connections.
func (c *Cluster) OpenProducer(s producer.Session) (producer.Backend, func(), error) {
	if s.ClientID == "" {
		return c.session, func() {}, nil
	}
	opened, err := c.newSession(consumer.Session{ClientID: s.ClientID}, true)
	if err != nil {
		return nil, nil, fmt.Errorf("remote: %w", err)
	}
	return opened, opened.close, nil
}

// newSession opens a session. own is true if a single consumer uses it.
func (c *Cluster) newSession(of consumer.Session, own bool) (*session, error) {
	l, err := c.newLink(of.ClientID, false)
	if err != nil {
		return nil, err
	}
	s := &session{c: c, link: l, of: of, own: own, topics: map[string]time.Time{}}
	s.ctx, s.end = context.WithCancel(c.ctx)
	s.puller, s.writer.s = newPuller(s), s
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.Close()
		s.end()
		return nil, replication.ErrClosed
	}
	c.sessions[s] = true
	return s, nil
}

// Close is Shutdown with a timeout of 30 s.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown closes all connections. Active calls end with replication.ErrClosed. It returns when the
// last goroutine has ended, or with ctx's error. It is idempotent.
func (c *Cluster) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	open := make([]*session, 0, len(c.sessions))
	for s := range c.sessions {
		open = append(open, s)
	}
	c.mu.Unlock()
	c.end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range open {
			s.close()
		}
		c.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A session is a set of connections, with the calls that use them.
type session struct {
	c      *Cluster
	link   *link.Client
	of     consumer.Session
	own    bool            // a single consumer uses it
	ctx    context.Context // done when closing
	end    context.CancelFunc
	once   sync.Once
	ending sync.Mutex     // held while the session ends, and while a goroutine is started
	wg     sync.WaitGroup // goroutines, see spawn
	puller *puller
	writer writer
	topics map[string]time.Time // whose metadata are refreshed, by the last use; "" stands for all

	mu      sync.Mutex // guards lookups
	lookups map[lookupKey]*lookup
}

// close ends the session. It returns when no goroutine of it is left.
func (s *session) close() {
	s.once.Do(func() {
		s.ending.Lock()
		s.end()
		s.ending.Unlock()
		s.puller.stop()
		s.link.Close()
		s.writer.close()
		s.c.mu.Lock()
		delete(s.c.sessions, s)
		s.c.mu.Unlock()
	})
	s.wg.Wait()
}

// spawn starts a goroutine that close waits for. It returns false if the session has ended.
func (s *session) spawn(fn func()) bool {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(fn)
	return true
}

// do sends a request with send, and returns its response or the error of the request. It returns
// when ctx ends, although a connection that is being made does not end then.
func do[R kmsg.Response](ctx context.Context, s *session, op string, from source, send func(context.Context) (kmsg.Response, error)) (r R, err error) {
	var resp kmsg.Response
	if ctx.Done() == s.ctx.Done() { // of a goroutine of the session
		resp, err = send(ctx)
	} else {
		resp, err = s.beside(ctx, send)
	}
	switch {
	case err == nil:
		return resp.(R), nil
	case s.ctx.Err() != nil:
		return r, replication.ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return r, passing(fmt.Errorf("%w: %s: %w", ErrUnreachable, op, ctx.Err()))
	case ctx.Err() != nil:
		return r, ctx.Err()
	}
	return r, linkError(op, from, err)
}

// beside calls send on another goroutine, and returns when it has returned or ctx ends.
func (s *session) beside(ctx context.Context, send func(context.Context) (kmsg.Response, error)) (kmsg.Response, error) {
	type result struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan result, 1)
	if !s.spawn(func() {
		resp, err := send(ctx)
		got <- result{resp, err}
	}) {
		return nil, replication.ErrClosed
	}
	select {
	case r := <-got:
		return r.resp, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, replication.ErrClosed
	}
}

// toAny sends a request to any broker.
func toAny[R kmsg.Response](ctx context.Context, s *session, op string, from source, req kmsg.Request) (R, error) {
	return do[R](ctx, s, op, from, func(ctx context.Context) (kmsg.Response, error) { return s.link.Any(ctx, req) })
}

// readAny is toAny for a request that changes nothing: it is sent to another broker, too, for each
// second without a response.
func readAny[R kmsg.Response](ctx context.Context, s *session, op string, from source, req func() kmsg.Request) (R, error) {
	return do[R](ctx, s, op, from, func(ctx context.Context) (kmsg.Response, error) { return s.link.ReadAny(ctx, s.spawn, req) })
}

// toBroker sends a request to one broker.
func toBroker[R kmsg.Response](ctx context.Context, s *session, op string, broker int32, req kmsg.Request) (R, error) {
	r, err := do[R](ctx, s, op, fromPartition, func(ctx context.Context) (kmsg.Response, error) { return s.link.Broker(ctx, broker, req) })
	if err != nil && ctx.Err() == nil {
		s.c.refreshSoon() // the broker may be gone, and its partitions have other leaders
	}
	return r, err
}

// toGroup sends a request to the coordinator of a group.
func toGroup[R kmsg.Response](ctx context.Context, s *session, op, group string, req kmsg.Request) (R, error) {
	return do[R](ctx, s, op+" "+group, fromGroup, func(ctx context.Context) (kmsg.Response, error) {
		return s.link.Coordinator(ctx, link.GroupCoordinator, group, req)
	})
}

// groupError returns the error of a code in the response of a group's coordinator. If the
// coordinator has moved, the next request finds it.
func (s *session) groupError(group string, code int16, message *string) error {
	if movedCode(code) {
		s.link.Moved(link.GroupCoordinator, group)
	}
	return codeError(fromGroup, code, message)
}
