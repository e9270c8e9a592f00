package main

import (
	"sync"
	"time"
)

// A gap is the longest time between two records.
type gap struct {
	mu   sync.Mutex
	last time.Time
	max  time.Duration
}

func (g *gap) record() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !g.last.IsZero() {
		g.max = max(g.max, now.Sub(g.last))
	}
	g.last = now
}

func (g *gap) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.max = 0
}

func (g *gap) longest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.max
}
