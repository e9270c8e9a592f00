package kafka

import (
	"sync"

	"github.com/stratalog/strata/kafka/internal/transport"
)

// An owner is a principal, or a host whose clients do not authenticate, while it has connections.
// All connections of an owner together get one share of limited memory.
type owner struct {
	requests transport.Owner // of Server.memory
	work     transport.Owner // of Server.decoding
	conns    int             // guarded by owners.mu
}

// owners has the owners of a server's connections. The zero owners is empty.
type owners struct {
	mu    sync.Mutex // guards the field below, and owner.conns; a leaf
	named map[string]*owner
}

// join returns the owner of that name, for one more connection.
func (o *owners) join(name string) *owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.named[name]
	if w == nil {
		w = &owner{}
		if o.named == nil {
			o.named = map[string]*owner{}
		}
		o.named[name] = w
	}
	w.conns++
	return w
}

// leave removes one connection of an owner.
func (o *owners) leave(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.named[name]; w != nil {
		if w.conns--; w.conns == 0 {
			delete(o.named, name)
		}
	}
}

// own assigns the connection to its principal, or to its host if it has no principal. Only the
// first call has an effect: a client that authenticates again has the same principal.
func (c *conn) own() {
	if c.owner.Load() != nil {
		return
	}
	c.ownedBy = c.host
	if p := c.authenticated.Load(); p != nil {
		c.ownedBy = p.String()
	}
	w := c.s.owners.join(c.ownedBy)
	c.owner.Store(w)
	c.transport.Own(&w.requests)
}

// disown reverses own.
func (c *conn) disown() {
	if c.owner.Load() != nil {
		c.s.owners.leave(c.ownedBy)
	}
}

// workOwner returns the owner of the connection's bytes of Server.decoding; nil before own.
func (c *conn) workOwner() *transport.Owner {
	if w := c.owner.Load(); w != nil {
		return &w.work
	}
	return nil
}

// parks reports whether requests of an API may wait long for other clients. They return their work
// bytes before they wait: otherwise a client could block others with them.
func parks(k Key) bool {
	return k == Fetch || k == ShareFetch || k == JoinGroup || k == SyncGroup || k == Produce
}

// giveWork returns the work bytes that the request holds, see decode and awaitWork.
func (e *execution) giveWork() {
	e.s.decoding.Give(e.work, e.workBy)
	e.work = 0
}
