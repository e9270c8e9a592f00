package kafka

import "sync"

const (
	// maxWaitingParts bounds the partitions of all waiting fetches of a server, each of which takes
	// about 450 bytes. A principal has half of them.
	maxWaitingParts = 250_000
	// fewParts is the number of partitions of a fetch that may always wait.
	fewParts = 100
)

// waitingFetches counts the partitions of fetches that wait for records. The zero value has none.
type waitingFetches struct {
	mu    sync.Mutex // guards the fields below; a leaf
	parts int
	own   map[string]int // by owner
}

// enter reports whether a fetch of n partitions may wait. Then leave must follow.
func (w *waitingFetches) enter(owner string, n int) bool {
	if n <= fewParts {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parts+n > maxWaitingParts || w.own[owner]+n > maxWaitingParts/2 {
		return false
	}
	if w.own == nil {
		w.own = map[string]int{}
	}
	w.parts += n
	w.own[owner] += n
	return true
}

func (w *waitingFetches) leave(owner string, n int) {
	if n <= fewParts {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts -= n
	if w.own[owner] -= n; w.own[owner] == 0 {
		delete(w.own, owner)
	}
}
