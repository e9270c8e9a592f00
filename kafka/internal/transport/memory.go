package transport

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Memory is the shared memory of a server's connections.
type Memory struct {
	Budget   *Budget // of requests and responses
	Guests   *Budget // likewise for connections that are not trusted yet, see Conn.AsGuest
	Fetched  FetchBuffers
	requests requestBuffers

	mu    sync.Mutex // guards the field below
	conns map[*Conn]struct{}
}

const (
	guestShare  = 16      // the guests' budget is Memory.Budget's size divided by this
	leastGuests = 2 << 20 // minimum of the guests' budget, in bytes
	ownBytes    = 4 << 10 // a guest's bytes that only the number of connections bounds

	// stalledSmall and stalledLarge are the times by which a client must be late before it is
	// ended for a small or a large take.
	stalledSmall = 250 * time.Millisecond
	stalledLarge = time.Second
	// stalledWaiting is the corresponding time for a connection that itself waits for bytes.
	stalledWaiting = 5 * time.Second
	// leastRate is the rate, in bytes a second, below which a client becomes late.
	leastRate = 256 << 10
)

// GuestBytes is the budget of clients that are not trusted yet, beside a budget of size bytes for
// the others: a sixteenth of that, but at least leastGuests.
func GuestBytes(size int) int { return max(size/guestShare, leastGuests) }

// NewMemory returns memory with a budget of size bytes, and one of GuestBytes.
func NewMemory(size int) *Memory {
	m := &Memory{Budget: NewBudget(size), Guests: NewBudget(GuestBytes(size)), conns: map[*Conn]struct{}{}}
	m.Budget.relieve = func(n int, by *Owner) { m.relieve(m.Budget, n, by) }
	m.Guests.relieve = func(n int, by *Owner) { m.relieve(m.Guests, n, by) }
	return m
}

func (m *Memory) add(c *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[c] = struct{}{}
}

func (m *Memory) remove(c *Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, c)
}

// relieve ends connections until n bytes of b will be returned. First it ends connections whose
// clients are late with a request or a response, those with most bytes first. Then it ends
// connections whose requests are being received in time, if their owner is not by and holds half
// of b. Last it ends connections that themselves wait for bytes, since their clients are not late.
func (m *Memory) relieve(b *Budget, n int, by *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	patience := stalledLarge
	if n <= smallTake {
		patience = stalledSmall
	}
	type holder struct {
		*Conn
		bytes int
	}
	var stalled, greedy, waiting []holder
	now := time.Now()
	for c := range m.conns {
		late := now.Sub(time.Unix(0, c.moved.Load()))
		bytes := 0
		if c.budget() == b {
			bytes = int(c.charged.Load())
		}
		if b == m.Guests {
			bytes += int(c.early.Load())
		}
		switch {
		case bytes == 0:
		case c.cut.Load():
			n -= bytes // they are about to be returned
		case c.since.Load() != 0:
			if now.Sub(time.Unix(0, c.since.Load())) >= stalledWaiting {
				waiting = append(waiting, holder{c, bytes})
			}
		case late >= patience && (c.receiving.Load() || c.Writing()):
			stalled = append(stalled, holder{c, bytes})
		case c.receiving.Load() && b == m.Budget && c.owner() != by && 2*c.owner().holds() >= int64(b.size):
			greedy = append(greedy, holder{c, bytes})
		}
	}
	for _, held := range [][]holder{stalled, greedy, waiting} {
		slices.SortFunc(held, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
		for _, h := range held {
			if n <= 0 {
				return
			}
			n -= h.bytes
			h.cut.Store(true)
			h.cancel()
			h.nc.Close()
		}
	}
}
