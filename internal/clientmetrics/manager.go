package clientmetrics

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// Reasons to reject requests of clients.
var (
	ErrThrottled              = errors.New("clientmetrics: request before the next push is due")
	ErrTerminated             = errors.New("clientmetrics: a push after the client's terminating push")
	ErrUnknownSubscription    = errors.New("clientmetrics: the client uses another subscription")
	ErrUnsupportedCompression = errors.New("clientmetrics: unknown compression")
	ErrTooLarge               = errors.New("clientmetrics: the push is too large")
)

const (
	// MaxClients is the number of clients that a Manager keeps. Beyond it the client with the
	// oldest request is dropped. Kafka: CACHE_MAX_SIZE.
	MaxClients = 16384

	// MaxPushBytes bounds a push. Kafka: telemetry.max.bytes.
	MaxPushBytes = 1 << 20

	forgetAfter = time.Minute // or three intervals, if longer, without a request
	codecs      = 5           // of Kafka
)

// A Manager keeps the clients of one broker that push metrics. It rejects pushes of another
// subscription, and too frequent ones. Its zero value is ready. It is safe for concurrent use.
type Manager struct {
	mu      sync.Mutex // guards all
	clients map[ID]*list.Element
	recent  list.List     // of *client, the most recent request first
	byConn  map[uint64]ID // the last client of each connection
}

// A client is the state of one client.
type client struct {
	about        Client // at its first request
	version      int64  // of the set that request was computed from
	request      Request
	subscription int32

	asked, pushed, seen time.Time // last served subscription request, last push, last request
	terminating         bool      // its last push had the flag
	mayAsk              bool      // its last push was rejected with an error that it resolves by a subscription request
}

// A Subscription is the response to a client.
type Subscription struct {
	Request
	ID int32
}

// Subscribe returns the subscription of a client. If it has not changed, a request within the
// interval gets ErrThrottled.
func (m *Manager) Subscribe(now time.Time, about Client, set *Set) (Subscription, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.client(now, about, set)
	last := c.asked
	if c.pushed.After(last) {
		last = c.pushed
	}
	switch {
	case now.Sub(last) >= c.request.Interval:
		c.asked = now
	case !c.mayAsk:
		return Subscription{}, ErrThrottled
	}
	c.mayAsk = false
	return Subscription{c.request, c.subscription}, nil
}

// A Push has the fields of a push, without its bytes.
type Push struct {
	Subscription int32
	Compression  int8
	Terminating  bool
	Bytes        int
}

// Push checks a push. Errors: ErrTerminated, ErrThrottled unless it is the client's last,
// ErrUnknownSubscription, ErrUnsupportedCompression, ErrTooLarge.
func (m *Manager) Push(now time.Time, about Client, set *Set, p Push) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.client(now, about, set)
	err := c.push(now, p)
	c.terminating = p.Terminating
	c.mayAsk = errors.Is(err, ErrUnknownSubscription) || errors.Is(err, ErrUnsupportedCompression)
	return err
}

func (c *client) push(now time.Time, p Push) error {
	if c.terminating {
		return ErrTerminated
	}
	// The first push comes at a random time in the interval, so that clients spread their pushes.
	switch due := c.asked.After(c.pushed) || now.Sub(c.pushed) >= c.request.Interval; {
	case due:
		c.pushed = now
	case !p.Terminating:
		return ErrThrottled
	}
	switch {
	case p.Subscription != c.subscription:
		return ErrUnknownSubscription
	case p.Compression < 0 || p.Compression >= codecs:
		return ErrUnsupportedCompression
	case p.Bytes > MaxPushBytes:
		return ErrTooLarge
	}
	return nil
}

// client returns the state of a client, which is reset if its request has changed.
func (m *Manager) client(now time.Time, about Client, set *Set) *client {
	e := m.clients[about.Instance]
	if e != nil {
		c := e.Value.(*client)
		if now.Sub(c.seen) >= max(forgetAfter, 3*c.request.Interval) {
			m.forget(e)
			e = nil
		} else if c.version < set.Version {
			conn := about.Conn
			about = c.about
			about.Conn = conn
			m.forget(e)
			e = nil
		}
	}
	if e == nil {
		e = m.add(about, set)
	}
	m.recent.MoveToFront(e)
	c := e.Value.(*client)
	c.seen = now
	return c
}

func (m *Manager) add(about Client, set *Set) *list.Element {
	if m.clients == nil {
		m.clients, m.byConn = map[ID]*list.Element{}, map[uint64]ID{}
	}
	if len(m.clients) >= MaxClients {
		m.forget(m.recent.Back())
	}
	r := set.of(&about)
	e := m.recent.PushFront(&client{about: about, version: set.Version, request: r, subscription: r.id(about.Instance)})
	m.clients[about.Instance] = e
	m.byConn[about.Conn] = about.Instance
	return e
}

func (m *Manager) forget(e *list.Element) {
	c := m.recent.Remove(e).(*client)
	delete(m.clients, c.about.Instance)
	if m.byConn[c.about.Conn] == c.about.Instance {
		delete(m.byConn, c.about.Conn)
	}
}

// Disconnected drops the last client of a connection that has ended.
func (m *Manager) Disconnected(conn uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, known := m.byConn[conn]; known {
		m.forget(m.clients[id])
	}
}
