// Package memory counts the memory that coordinators keep for clients.
//
// A Budget counts the bytes of all principals. Bytes are taken and given back, for example for the
// members of a group, or belong to a Charge. There is one Charge for each thing with state in a log,
// for example a transactional id; it belongs to one principal. State that is loaded from a log
// counts too, and is never rejected. No principal is charged for it until a request makes it grow.
//
// Each principal can have at most half of the budget without the loaded state. Otherwise a principal
// that fills its half before a restart and again after it would leave nothing for the others.
package memory

import (
	"context"
	"runtime"
	"sync"

	"github.com/stratalog/strata/internal/machine"
)

// share is the divisor for a principal's share: it is a half.
const share = 2

// A Bound limits the bytes that one request may add to a Budget.
type Bound = machine.Bound

type boundKey struct{}

// With returns a context for a request that is served within b.
func With(ctx context.Context, b Bound) context.Context { return context.WithValue(ctx, boundKey{}, b) }

// BoundOf returns the Bound of a context made by With; the zero Bound if there is none.
func BoundOf(ctx context.Context) Bound {
	b, _ := ctx.Value(boundKey{}).(Bound)
	return b
}

// A Budget counts bytes. Its size comes with each request, see Bound. The zero Budget is empty. It
// is safe for concurrent use.
type Budget struct {
	mu   sync.Mutex // guards the fields below and all accounts; a leaf
	used int
	of   map[string]int // used by each principal; no element is 0
	last int            // Bytes of the last Bound; 0: none yet
}

var _ machine.Charge = (*Charge)(nil)

// A Charge is the part of a Budget that one thing takes. Its bytes are given back when the garbage
// collector finds it unreachable, for instance after its state has moved to another broker. Its
// methods must not be called concurrently.
type Charge struct {
	budget  *Budget
	account *account // nil: none yet
}

type account struct {
	by    string
	bytes int
}

// NewCharge returns a Charge of no bytes.
func (b *Budget) NewCharge() *Charge { return &Charge{budget: b} }

// Used returns the bytes of all charges.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Last returns the Bound of the last request, without its principal, for a request whose client is
// not known.
func (b *Budget) Last() Bound {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Bound{Bytes: b.last}
}

// Of returns the bytes that are charged to a principal; "": bytes without a principal.
func (b *Budget) Of(principal string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[principal]
}

// Take adds n bytes for the principal of a request, and reports whether they are within its Bound;
// otherwise it adds nothing. Bytes without a principal do not count against the Bound: members can
// join however much state was loaded.
func (b *Budget) Take(by Bound, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = by.Bytes
	fits := b.fitsLocked(by.Principal, by.Bytes, b.used-b.of[""], by.Bytes, n)
	if fits {
		b.addLocked(by.Principal, n)
	}
	return fits
}

// Give gives back n bytes that were taken for a principal.
func (b *Budget) Give(by string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(by, -n)
}

func (c *Charge) open() *account {
	if c.account == nil {
		c.account = &account{}
		runtime.AddCleanup(c, c.budget.drop, c.account)
	}
	return c.account
}

// Fits implements machine.Charge.
func (c *Charge) Fits(by Bound, n int) bool {
	if by.Bytes == 0 {
		return true
	}
	b, a := c.budget, c.open()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = by.Bytes
	if a.by == "" {
		b.addLocked("", -a.bytes)
		a.by = by.Principal
		b.addLocked(a.by, a.bytes)
	}
	if a.by == "" {
		return b.used+n <= by.Bytes
	}
	return b.fitsLocked(a.by, by.Bytes, b.used, by.Bytes-b.of[""], n)
}

// Add implements machine.Charge.
func (c *Charge) Add(n int) {
	if n == 0 {
		return
	}
	b, a := c.budget, c.open()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(a.by, n)
	if a.bytes += n; a.bytes == 0 {
		a.by = ""
	}
}

// drop gives the bytes of an account back.
func (b *Budget) drop(a *account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(a.by, -a.bytes)
}

// fitsLocked reports whether n more bytes of a principal fit into a budget of the given size, of
// which used are taken and the principals share shared.
func (b *Budget) fitsLocked(by string, size, used, shared, n int) bool {
	return used+n <= size && b.of[by]+n <= shared/share
}

func (b *Budget) addLocked(by string, n int) {
	if b.of == nil {
		b.of = map[string]int{}
	}
	b.used += n
	if b.of[by] += n; b.of[by] == 0 {
		delete(b.of, by)
	}
}
