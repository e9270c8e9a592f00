package log

import "sync"

// A writeToken admits one writer to a log at a time. There is one token; whoever
// acquires it gets the *writer, and with it everything that only the holder may
// do, and gives both back with release.
//
// The token is handed from one holder to the next over a channel, so that a goroutine that waits
// for it is durably blocked in the sense of testing/synctest. Appends do not wait for it: an append
// that finds it held is queued, and whoever holds it leads the queue's next round, or hands the
// token to a worker of the syncer that does. So appends is never left non-empty by a release.
type writeToken struct {
	// mu guards the fields below, for a few instructions: never held during I/O or while waiting.
	mu      sync.Mutex
	held    bool // somebody has the token
	retired bool // nobody will have it again; set by the last holder
	// waiting are those who wait for the token. It is theirs when their channel is closed, unless
	// retired is set.
	waiting []chan struct{}
	appends appendQueue // wait for a round; only while held
	counted counts      // what was appended, as Stats tells it

	writer writer // belongs to the holder, not to mu
}

// counts is what was appended.
type counts struct{ appends, records, bytes, rounds int64 }

// moveTo adds c to sum and empties it.
func (c *counts) moveTo(sum *counts) {
	sum.appends += c.appends
	sum.records += c.records
	sum.bytes += c.bytes
	sum.rounds += c.rounds
	*c = counts{}
}

// An appendQueue holds appends that wait for a round, first come, first served.
type appendQueue struct{ head, tail *Append }

func (q *appendQueue) push(a *Append) {
	if a.next = nil; q.head == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
}

func (q *appendQueue) pop() *Append {
	a := q.head
	if a != nil {
		q.head, a.next = a.next, nil
	}
	return a
}

func (t *writeToken) counts() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted
}

// acquire waits until nobody else writes. release must follow. ErrClosed says that the log was
// closed meanwhile, and the token is not the caller's.
func (t *writeToken) acquire() (*writer, error) {
	t.mu.Lock()
	if t.retired {
		t.mu.Unlock()
		return nil, ErrClosed
	}
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return &t.writer, nil
	}
	ch := make(chan struct{})
	t.waiting = append(t.waiting, ch)
	t.mu.Unlock()
	<-ch
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return nil, ErrClosed
	}
	return &t.writer, nil
}

// offer gives the token to whoever waits for it, or back. If only appends wait it returns true, and
// the token stays with the caller, who has to see that they are written.
func (t *writeToken) offer() (appends bool) {
	t.mu.Lock()
	t.writer.appended.moveTo(&t.counted)
	if len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
	} else if appends = t.appends.head != nil; !appends {
		t.waiting, t.held = nil, false
	}
	t.mu.Unlock()
	return appends
}

// retire ends all writing for ever. The caller has the token and keeps it. Those who wait for it,
// or for a round, are sent away with ErrClosed.
func (t *writeToken) retire() {
	t.mu.Lock()
	t.retired = true
	for _, ch := range t.waiting {
		close(ch)
	}
	queue := t.appends
	t.waiting, t.appends = nil, appendQueue{}
	t.mu.Unlock()
	for a := queue.pop(); a != nil; a = queue.pop() {
		a.Err = ErrClosed
		a.complete()
	}
}
