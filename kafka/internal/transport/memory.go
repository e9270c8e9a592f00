package transport

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Memory is the shared memory of a server's connections.
type Memory struct {
	Budget   *Budget // of requests and answers
	Guests   *Budget // likewise of connections that are not trusted yet, see Conn.AsGuest
	Fetched  FetchBuffers
	requests requestBuffers

	mu    sync.Mutex // guards the field below
	conns map[*Conn]struct{}
}

const (
	guestShare  = 16      // of the size of Memory.Budget are the guests'
	leastGuests = 2 << 20 // or that many bytes, if they are more
	ownBytes    = 4 << 10 // of a guest's requests and answers are counted by the number of connections only

	// stalledSmall and stalledLarge are the times behind which a client has to be before it is
	// ended for the sake of a small or a large take.
	stalledSmall = 250 * time.Millisecond
	stalledLarge = time.Second
	// stalledWaiting is likewise the time for which a connection waits for bytes itself.
	stalledWaiting = 5 * time.Second
	// leastRate is the rate, in bytes a second, below which a client falls behind.
	leastRate = 256 << 10
)

// NewMemory returns memory of which size bytes may be held at a time, and a sixteenth of that by
// clients that are not trusted yet, but at least leastGuests.
func NewMemory(size int) *Memory {
	m := &Memory{Budget: NewBudget(size), Guests: NewBudget(max(size/guestShare, leastGuests)), conns: map[*Conn]struct{}{}}
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

// relieve ends connections whose clients are behind with a request or an answer, those that hold
// most first, until n bytes of b will be given back. After them come requests that are on their way
// in time, of an owner other than by that holds half of b. A connection that waits
// for bytes itself is ended only if no other one can be: it is not the client that is late.
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
			n -= bytes // is about to be given back
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
