package producer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/replication"
)

// lossy is a cluster whose produce answers are lost with the given chance in percent. It can be
// replaced by a restarted cluster, which loses the answers in flight.
type lossy struct {
	t   testing.TB
	far producer.Backend // client of all clusters over a network; nil: they are in the process

	mu     sync.Mutex // guards the fields below
	c      *strata.Cluster
	rnd    *rand.Rand
	chance int
	delay  bool // answers come out of order
	errors bool // errors are returned, unless they are lost
	dead   bool // answers are lost until replace
	life   int  // counts calls of replace: answers of an earlier life are lost
}

// on makes a test's lossy use its network.
func (l *lossy) on(t testing.TB) *lossy {
	if l.t = t; wired.On(t) {
		l.far = over(t, l.c)
	}
	return l
}

func (l *lossy) backend(c *strata.Cluster) producer.Backend {
	if l.far != nil {
		return l.far
	}
	return c
}

// die loses all answers in flight, and all later ones until replace.
func (l *lossy) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// alive reports whether the cluster still has the given life.
func (l *lossy) alive(life int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead && l.life == life
}

func (l *lossy) now() *strata.Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c
}

// replace replaces the cluster by c. All answers of the old one are lost.
func (l *lossy) replace(c *strata.Cluster) {
	wired.Replace(l.t, l.now(), c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.c, l.dead = c, false
	l.life++
}

func (l *lossy) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	return l.backend(l.now()).Metadata(ctx, topics...)
}

func (l *lossy) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	return l.backend(l.now()).WaitMetadata(ctx, after)
}

func (l *lossy) InitProducerID(ctx context.Context) (int64, int16, error) {
	return l.backend(l.now()).InitProducerID(ctx)
}

func (l *lossy) Produce(req *partition.ProduceRequest) {
	l.mu.Lock()
	lost := l.rnd.IntN(100) < l.chance
	delay := time.Duration(0)
	if l.delay {
		delay = time.Duration(1+l.rnd.IntN(3000)) * time.Microsecond
	}
	c, life := l.c, l.life
	l.mu.Unlock()
	inner := *req // the producer's request must stay unchanged
	inner.Done = func(res partition.ProduceResult) {
		// an error of a cluster that is closing is lost too
		if lost || res.Err != nil && !l.errors || !l.alive(life) {
			res = partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: partition.ErrTimeout}
		}
		if delay > 0 {
			time.AfterFunc(delay, func() { req.Done(res) })
			return
		}
		req.Done(res)
	}
	l.backend(c).Produce(&inner)
}
