package log

import "sync"

// A writeToken admits one writer to a log at a time. There is one token; its holder gets the
// *writer, and with it everything that only the holder may do, and returns both with release.
//
// The token is passed from one holder to the next over a channel, so that a waiting goroutine is
// durably blocked in the sense of testing/synctest. Appends do not wait for it. An append that
// finds it held is queued, and the holder leads the queue's next round, or passes the token to a
// worker of the syncer that does. So a release never leaves appends non-empty.
type writeToken struct {
	// mu guards the fields below, for a few instructions: never held during I/O or while waiting.
	mu      sync.Mutex
	held    bool // a goroutine holds the token
	retired bool // the token is never released again; set by the last holder
	// waiting has the goroutines that wait for the token. A goroutine gets it when its channel is
	// closed, unless retired is set.
	waiting []chan struct{}
	appends appendQueue // wait for a round; only while held
	counted counts      // appends, as Stats returns them

	writer writer // belongs to the holder, not to mu
}

// counts counts appends.
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

// acquire waits until there is no other writer. release must follow. ErrClosed means that the log
// was closed meanwhile, and that the caller does not have the token.
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

// offer passes the token to a waiting goroutine, or releases it. If only appends wait it returns
// true, and the caller keeps the token and must have them written.
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

// retire ends all writing permanently. The caller has the token and keeps it. Goroutines that wait
// for it, or for a round, get ErrClosed.
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
