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

// processing collects the records that Consume has processed.
type processing struct {
	code *Code

	mu      sync.Mutex // guards the fields below
	found   *findings
	endAt   int           // number of records after which the next one is rejected; 0: no limit
	ended   bool          // endAt was reached: nothing is processed until resume
	changed chan struct{} // closed and replaced when a record was processed
}

func newProcessing(c *Code) *processing {
	return &processing{code: c, found: newFindings(), changed: make(chan struct{})}
}

// process is called by Consume for each record.
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
	p.found.expect(name, int(offset)) // it may be read before fill knows its partition
	p.found.add(partition, name)
	return nil
}

// resume has records processed again after the end of a call.
func (p *processing) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endAt, p.ended = 0, false
}

// wait waits until cond, which is called under mu, returns true. It returns false if ctx ends
// first.
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

// offsetName returns the name of a record that is consumed.
func offsetName(partition int32, offset int64) string {
	return fmt.Sprintf("%d of partition %d", offset, partition)
}

// A consuming is a running call of Consume.
type consuming struct {
	running context.Context // ends when the call has returned
	cancel  func()
	err     error // result of the call; read only after running has ended
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

// checkConsume runs Consume, and returns the findings in the processed records.
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
	// The next call shows which records were committed.
	r.fill(p, leastChecked)
	last := r.consume(p)
	p.waitForAll(r, last)
	r.settle()
	last.end()
	return p.text(r)
}

// consumeDisturbed consumes the first half of the records, and the other half during the fault. It
// returns false if the fault did not occur.
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

// settling is the time for the commits of a consumer that has processed all records. Clients that
// commit periodically do so every five seconds.
const settling = 11 * time.Second

// settle waits until a group has committed all records.
func (r *checkRun) settle() {
	step, cancelStep := r.step()
	defer cancelStep()
	ctx, cancel := context.WithTimeout(step, settling)
	defer cancel()
	_ = r.s.WaitUntil(ctx, func() bool { return r.committed(ctx) }) // missing commits show as records that are read again
}

// committed reports whether a group has committed all records.
func (r *checkRun) committed(ctx context.Context) bool {
	groups, _ := r.s.Cluster().Groups(ctx) // groups whose coordinators answer
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

// waitFor waits until cond returns true. It returns false if c returns first or the time is up.
func (p *processing) waitFor(r *checkRun, c *consuming, cond func() bool) bool {
	ctx, cancel := r.step()
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	began := time.Now()
	if p.wait(ctx, cond) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.running.Err() != nil {
		p.found.failed = fmt.Sprintf("Consume returned before it was to end: %v", c.err)
	} else {
		p.found.failed = fmt.Sprintf("Consume had not processed all after %s (Config.WaitTimeout or the test's own deadline)", time.Since(began).Round(time.Millisecond))
	}
	return false
}

func (p *processing) text(r *checkRun) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found.text(r.s)
}
