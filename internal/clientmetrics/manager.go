package clientmetrics

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// Causes of refusals of clients.
var (
	ErrThrottled              = errors.New("clientmetrics: the request came before the next push is due")
	ErrTerminated             = errors.New("clientmetrics: the client has said that its last push was the last")
	ErrUnknownSubscription    = errors.New("clientmetrics: the client goes by another subscription")
	ErrUnsupportedCompression = errors.New("clientmetrics: unknown compression")
	ErrTooLarge               = errors.New("clientmetrics: the push is too large")
)

const (
	// MaxClients is how many clients a Manager remembers. Above it the one that asked the longest
	// ago is forgotten. Kafka: CACHE_MAX_SIZE.
	MaxClients = 16384

	// MaxPushBytes is how large a push may be. Kafka: telemetry.max.bytes.
	MaxPushBytes = 1 << 20

	forgetAfter = time.Minute // or three intervals, if these are longer, without a request
	codecs      = 5           // that Kafka knows
)

// A Manager is what one broker remembers of clients that push metrics, so that each pushes what it
// was asked for and not more often. Its zero value remembers nobody. It is safe for concurrent use.
type Manager struct {
	mu      sync.Mutex // guards all
	clients map[ID]*list.Element
	recent  list.List     // of *client, the one that asked last first
	byConn  map[uint64]ID // the client that a connection was last made known by
}

// client is what is remembered of one.
type client struct {
	about        Client // as of its first request
	version      int64  // of the set that request is of
	request      Request
	subscription int32

	asked, pushed, seen time.Time // when it last was told what to push, pushed, or sent anything
	terminating         bool      // its last push said so
	mayAsk              bool      // its last request was refused with what it learns the cause of by asking
}

// A Subscription is what a client is told.
type Subscription struct {
	Request
	ID int32
}

// Subscribe returns what a client is to push. It is told at once if that has changed, else once per
// interval: ErrThrottled.
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

// A Push is what counts of a push, but for its bytes.
type Push struct {
	Subscription int32
	Compression  int8
	Terminating  bool
	Bytes        int
}

// Push decides whether a push is taken in. Errors: ErrTerminated, ErrThrottled, unless it is the
// client's last, ErrUnknownSubscription, ErrUnsupportedCompression, ErrTooLarge.
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
	// The first push comes some time within the interval, so that not all clients push at once.
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

// client returns what is remembered of a client, which begins anew if it is asked for something
// else than before.
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

// Disconnected forgets the client that a connection, which has ended, was last made known by.
func (m *Manager) Disconnected(conn uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, known := m.byConn[conn]; known {
		m.forget(m.clients[id])
	}
}
