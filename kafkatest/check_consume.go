package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

var errEnded = errors.New("kafkatest: not processed: the consumer is being ended in the middle of this record")

// processing is what Consume has processed.
type processing struct {
	code *Code

	mu      sync.Mutex // guards the fields below
	found   *findings
	endAt   int           // so many records are processed, and the next one is the end; 0: it goes on
	ended   bool          // endAt was reached: nothing is processed until resume
	changed chan struct{} // closed when something was processed, and made anew
}

func newProcessing(c *Code) *processing {
	return &processing{code: c, found: newFindings(), changed: make(chan struct{})}
}

// process is what Consume calls for a record.
func (p *processing) process(partition int32, offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		close(p.changed)
		p.changed = make(chan struct{})
	}()
	if p.endAt > 0 && p.found.seen() >= p.endAt {
		p.ended = true
	}
	if p.ended {
		return errEnded
	}
	name := offsetName(partition, offset)
	p.found.expect(name, int(offset)) // it may be read before fill has seen where it is
	p.found.add(partition, name)
	return nil
}

// resume has records processed again after the end of a call.
func (p *processing) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endAt, p.ended = 0, false
}

// wait waits until cond, which is asked under mu, holds. False: ctx has ended before.
func (p *processing) wait(ctx context.Context, cond func() bool) bool {
	for {
		p.mu.Lock()
		is, changed := cond(), p.changed
		p.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// offsetName names a record that is read.
func offsetName(partition int32, offset int64) string {
	return fmt.Sprintf("%d of partition %d", offset, partition)
}

// A consuming is a call of Consume under way.
type consuming struct {
	running context.Context // ends when the call has returned
	cancel  func()
	err     error // what it returned; to be read when running has ended
}

// consume calls Consume.
func (r *checkRun) consume(p *processing) *consuming {
	ctx, cancel := context.WithCancel(r.ends)
	running, returned := context.WithCancel(context.Background())
	c := &consuming{running: running, cancel: cancel}
	go func() {
		defer returned()
		c.err = r.Consume(ctx, r.s, p.process)
	}()
	return c
}

// end ends a call, and returns when it has returned.
func (c *consuming) end() {
	c.cancel()
	<-c.running.Done()
}

// fill writes n records to be read.
func (r *checkRun) fill(p *processing, n int) {
	r.s.t.Helper()
	r.s.Fill(r.Topic, r.make(n)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range r.s.Topic(r.Topic) {
		p.found.expect(offsetName(w.Partition, w.Offset), int(w.Offset))
	}
}

// checkConsume runs Consume, and returns what is wrong with what it has processed.
func (c *Code) checkConsume(t *testing.T, f checkFault) string {
	r, cancel := c.start(t)
	defer cancel()
	p := newProcessing(c)
	p.found.mayRepeat = c.MayRepeat && f.what != nothing
	if f.ends {
		p.endAt = c.Records / 4
	}
	r.fill(p, c.Records/2)
	if !r.consumeDisturbed(p, f) {
		return p.text(r)
	}
	// What was committed shows to the call that comes next.
	r.fill(p, leastChecked)
	last := r.consume(p)
	p.waitForAll(r, last)
	r.settle()
	last.end()
	return p.text(r)
}

// consumeDisturbed has the first half of the records read, and the other one while f makes
// something go wrong. False: that has not come about.
func (r *checkRun) consumeDisturbed(p *processing, f checkFault) bool {
	first := r.consume(p)
	defer func() { first.end() }()
	begun := func() bool { return p.found.seen() > 0 }
	if f.ends {
		begun = func() bool { return p.ended }
	}
	if !p.waitFor(r, first, begun) {
		return false
	}
	if f.ends {
		first.end()
		p.resume()
		first = r.consume(p)
	}
	act := f.begin(r)
	if f.joins {
		second := r.consume(p)
		defer second.end()
	}
	r.fill(p, r.Records-r.Records/2)
	act(first.running)
	if !p.waitForAll(r, first) {
		return false
	}
	r.settle()
	return true
}

// settling is how long a consumer has for its commits when it has processed everything. Clients
// that commit from time to time do so every five seconds.
const settling = 11 * time.Second

// settle waits until some group has committed all that there is to be read.
func (r *checkRun) settle() {
	ctx, cancel := context.WithTimeout(r.ends, settling)
	defer cancel()
	_ = r.s.WaitUntil(ctx, func() bool { return r.committed(ctx) }) // that it has not shows in what is read again
}

// committed reports whether some group has committed all that there is to be read.
func (r *checkRun) committed(ctx context.Context) bool {
	groups, _ := r.s.Cluster().Groups(ctx) // those that can be asked for
	return slices.ContainsFunc(groups, func(g group.Info) bool {
		g, err := r.s.Cluster().Group(ctx, g.ID)
		for p := range r.Partitions {
			o, ok := g.Offsets[record.TopicPartition{Topic: r.Topic, Partition: int32(p)}]
			if err != nil || o.Offset < o.End || !ok {
				return false
			}
		}
		return true
	})
}

// waitForAll waits until all records are processed.
func (p *processing) waitForAll(r *checkRun, c *consuming) bool {
	return p.waitFor(r, c, func() bool { return p.found.missing() == 0 })
}

// waitFor waits until cond holds. False: c has returned before, or it takes too long.
func (p *processing) waitFor(r *checkRun, c *consuming, cond func() bool) bool {
	ctx, cancel := context.WithCancel(r.ends)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	if p.wait(ctx, cond) {
		return true
	}
	if c.running.Err() != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found.failed = fmt.Sprintf("Consume returned before it was to end: %v", c.err)
	}
	return false
}

func (p *processing) text(r *checkRun) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found.text(r.s)
}
