package group

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/re2"
)

// An evaluator matches regular expressions of members with names of topics, for all groups of a
// process. An expression of 170 bytes can take a second with 5,000 long names. Other requests
// hence must not wait for it:
//
//   - One request evaluates at a time, for one slice of work. Then the next owner has its turn: a
//     principal with a thousand expressions delays others by one slice.
//   - After each slice the evaluator rests, so that it takes about half of one processor at most.
//   - Whether an expression matches a name never changes. Results are kept per expression, for all
//     groups and versions of the topics: only new topics are evaluated, and a request that gave up
//     is continued by the next one.
type evaluator struct {
	slice    int           // work between rests
	rest     time.Duration // after each slice
	patience time.Duration // the longest wait of a request for results that are missing

	mu    sync.Mutex                 // guards the fields below; a leaf
	busy  bool                       // a request has the turn
	queue map[string][]chan struct{} // by owner: the waiting requests, in their order; closed to pass the turn on
	order []string                   // owners in queue, the next one first

	// The fields below belong to the request that has the turn.
	spent     int               // work since the last rest
	list      nameList          // of the newest topics
	ids       map[string]uint32 // by name; names of deleted topics stay until most are such names
	exprs     map[string]*expression
	uses      int64 // counts uses of exprs
	size      int   // instructions and bytes of exprs
	evaluated int64 // how often an expression was evaluated with a name
}

// Bounds of the expressions that an evaluator keeps.
const (
	maxExpressions = 1000
	maxKept        = 200_000  // instructions and bytes of the expressions
	maxResults     = 32 << 20 // bytes of the results
)

// The work for a name and for an instruction, besides evaluations. A unit of work is an instruction
// for a byte of a name.
const (
	nameWork    = 20
	listWork    = 50
	compileWork = 100
)

// An expression is a regular expression with the results that are known.
type expression struct {
	re              *regexp.Regexp // nil if it is invalid: another implementation has stored it
	instructions    int
	tested, matched bits // by id of the name
	used            int64
}

// A nameList has the names of topics, sorted, and their ids.
type nameList struct {
	topics *modern.Topics
	names  []string
	ids    []uint32
}

// bits is a set of ids.
type bits []uint64

func (b bits) has(i uint32) bool { return int(i/64) < len(b) && b[i/64]&(1<<(i%64)) != 0 }

func (b *bits) add(i uint32) {
	if n := int(i/64) + 1; n > len(*b) {
		*b = append(*b, make(bits, n-len(*b))...)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// newEvaluator returns an evaluator whose slices take at most about 3 ms, at 6 ns for an
// instruction and a byte.
func newEvaluator() *evaluator {
	return &evaluator{slice: 500_000, rest: 3 * time.Millisecond, patience: 500 * time.Millisecond,
		queue: make(map[string][]chan struct{}), ids: make(map[string]uint32), exprs: make(map[string]*expression)}
}

// listOf returns the names of topics, or of newer ones.
func (e *evaluator) listOf(topics *modern.Topics) nameList {
	if e.list.topics != nil && e.list.topics.Version >= topics.Version {
		return e.list
	}
	names := slices.Sorted(maps.Keys(topics.ByName))
	if len(e.ids) > 2*len(names)+1000 {
		e.ids, e.exprs, e.size = make(map[string]uint32, len(names)), make(map[string]*expression), 0
	}
	l := nameList{topics: topics, names: names, ids: make([]uint32, len(names))}
	for i, name := range names {
		id, known := e.ids[name]
		if !known {
			id = uint32(len(e.ids))
			e.ids[name] = id
		}
		l.ids[i] = id
	}
	e.list = l
	e.spent += listWork * len(names)
	return l
}

// expression returns the compiled expression with its results. Beyond the bounds it drops the
// expressions that were not used for longest.
func (e *evaluator) expression(expr string) *expression {
	e.uses++
	if x := e.exprs[expr]; x != nil {
		x.used = e.uses
		return x
	}
	x := &expression{used: e.uses}
	if re, err := compilePattern(expr); err == nil {
		x.re, x.instructions = re, re2.Instructions(expr)
		e.spent += compileWork * x.instructions
	}
	e.exprs[expr] = x
	e.size += x.instructions + len(expr)
	for len(e.exprs) > maxExpressions || e.size > maxKept || len(e.exprs)*len(e.ids)/4 > maxResults {
		oldest := expr
		for other, o := range e.exprs {
			if o.used < e.exprs[oldest].used {
				oldest = other
			}
		}
		e.size -= e.exprs[oldest].instructions + len(oldest)
		delete(e.exprs, oldest)
	}
	return x
}

// arrive puts a request into the queue. The channel is closed when the request has the turn.
func (e *evaluator) arrive(owner string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	turn := make(chan struct{})
	if !e.busy {
		e.busy = true
		close(turn)
		return turn
	}
	if len(e.queue[owner]) == 0 {
		e.order = append(e.order, owner)
	}
	e.queue[owner] = append(e.queue[owner], turn)
	return turn
}

// pass gives the turn to the next owner's first request.
func (e *evaluator) pass() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.order) == 0 {
		e.busy = false
		return
	}
	owner := e.order[0]
	e.order = e.order[1:]
	turn, left := e.queue[owner][0], e.queue[owner][1:]
	delete(e.queue, owner)
	if len(left) > 0 {
		e.queue[owner] = left
		e.order = append(e.order, owner)
	}
	close(turn)
}

// leave removes a request from the queue. It returns false if the request has the turn by now.
func (e *evaluator) leave(owner string, turn <-chan struct{}) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queue[owner]
	i := slices.IndexFunc(q, func(c chan struct{}) bool { return c == turn })
	if i < 0 {
		return false
	}
	if e.queue[owner] = slices.Delete(q, i, i+1); len(q) == 1 {
		delete(e.queue, owner)
		e.order = slices.DeleteFunc(e.order, func(o string) bool { return o == owner })
	}
	return true
}

// An evaluation is the work for one request.
type evaluation struct {
	*evaluator
	ctx       context.Context
	closing   context.Context // done when the coordinator closes
	owner     string
	describes func(string) bool // nil: all topics
	late      <-chan struct{}   // closed when the request has waited long enough
	holds     bool              // the request has the turn
	began     bool              // the request had a turn
	fresh     bool              // the request has evaluated an expression
}

// errLate ends an evaluation whose request has waited long enough.
var errLate = errors.New("group: the evaluation takes too long for this request")

// matchAll matches expressions with the names of topics that describes lets through. The result is
// partial if that takes too long. The error is ErrClosed, or the one of the request's context.
func (e *evaluation) matchAll(u *modern.UnmatchedError) (*modern.Matches, error) {
	m := &modern.Matches{Version: u.Topics.Version, Topics: make(map[string][]string, len(u.Exprs))}
	err := e.await(e.arrive(e.owner))
	defer func() { // also if describes panics
		if e.holds {
			e.pass()
		}
	}()
	for i := 0; i < len(u.Exprs) && err == nil; i++ {
		var topics []string
		if topics, err = e.match(u.Exprs[i], u.Topics); err == nil {
			m.Topics[u.Exprs[i]] = topics
		}
	}
	if m.Partial = errors.Is(err, errLate); err != nil && !m.Partial {
		return nil, err
	}
	return m, nil
}

// match returns the topics that one expression matches, sorted; nil if the expression is invalid.
func (e *evaluation) match(expr string, topics *modern.Topics) ([]string, error) {
	l, x := e.listOf(topics), e.expression(expr)
	if x.re == nil {
		return nil, nil
	}
	found := []string{}
	for i, name := range l.names {
		if err := e.ended(); err != nil {
			return nil, err
		}
		id, work := l.ids[i], nameWork
		if e.describes == nil || e.describes(name) { // first, so that other topics cost nothing
			if !x.tested.has(id) {
				work += x.evaluate(name, id)
				e.evaluated++
				e.fresh = true
			}
			if x.matched.has(id) {
				found = append(found, name)
			}
		}
		if err := e.spend(work); err != nil {
			return nil, err
		}
	}
	return found, e.ended() // describes may have returned false because of it
}

// ended returns the error of a request that has ended, or of a coordinator that is closing.
func (e *evaluation) ended() error {
	if e.closing.Err() != nil {
		return ErrClosed
	}
	return e.ctx.Err()
}

// evaluate evaluates the expression with a name, and returns the work.
func (x *expression) evaluate(name string, id uint32) int {
	x.tested.add(id)
	if x.re.MatchString(name) {
		x.matched.add(id)
	}
	return x.instructions * (len(name) + 1)
}

// spend counts work. After a slice it rests, and gives other owners a turn.
func (e *evaluation) spend(work int) error {
	if e.spent += work; e.spent < e.slice {
		return nil
	}
	e.spent = 0
	time.Sleep(e.rest)
	turn := e.arrive(e.owner) // before another request of the next owner is behind that
	e.pass()
	e.holds = false
	return e.await(turn)
}

// await waits for the turn. A request that had a turn does not give up before it has evaluated
// something: the next one would get no further.
func (e *evaluation) await(turn <-chan struct{}) error {
	late := e.late
	if e.began && !e.fresh {
		late = nil
	}
	var err error
	select {
	case <-late: // rather than another turn
		err = errLate
	default:
		select {
		case <-turn:
			e.holds, e.began = true, true
			return nil
		case <-e.ctx.Done():
			err = e.ended()
		case <-e.closing.Done():
			err = e.ended()
		case <-late:
			err = errLate
		}
	}
	if !e.leave(e.owner, turn) {
		e.pass()
	}
	return err
}
