package topic

import (
	"sync"
	"sync/atomic"
)

// A turn names an independent sequence of choices: a topic, or one block of it under Composite.
type turn struct {
	topic string
	block int
}

// turns holds one word of state for each turn, for ever. The zero value has none. Safe for
// concurrent use.
type turns struct {
	last atomic.Pointer[turnState] // the turn used last, which is mostly also the next

	mu     sync.RWMutex // guards states
	states map[turn]*turnState
}

type turnState struct {
	turn turn
	word atomic.Uint64
}

// get returns the state of t, nil if there is none yet.
func (p *turns) get(t turn) *turnState {
	if s := p.last.Load(); s != nil && s.turn == t {
		return s
	}
	p.mu.RLock()
	s := p.states[t]
	p.mu.RUnlock()
	if s != nil {
		p.last.Store(s)
	}
	return s
}

// add returns the state of t, which begins with the given word if there is none yet.
func (p *turns) add(t turn, word uint64) *turnState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.states[t]; s != nil {
		return s
	}
	if p.states == nil {
		p.states = map[turn]*turnState{}
	}
	s := &turnState{turn: t}
	s.word.Store(word)
	p.states[t] = s
	return s
}
