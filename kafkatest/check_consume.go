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
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

var errEnded = errors.New("kafkatest: not processed: the consumer is being ended in the middle of this record")

// processing collects the records that Consume, Transform or Work has processed.
type processing struct {
	code *Code

	mu      sync.Mutex // guards the fields below
	found   *findings
	begun   int           // number of records that were not rejected, with repetitions
	endAt   int           // value of begun from which on records are rejected; 0: none
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
	defer p.wake()
	if err := p.begin(); err != nil {
		return err
	}
	name := offsetName(partition, offset)
	p.found.expect(name, int(offset)) // it may be read before fill knows its partition
	p.found.add(partition, name)
	return nil
}

// begin begins a record, under mu. It returns an error if the call is being ended.
func (p *processing) begin() error {
	if p.endAt > 0 && p.begun >= p.endAt {
		p.ended = true
	}
	if p.ended {
		return errEnded
	}
	p.begun++
	return nil
}

// wake has wait check its condition again. It is called under mu.
func (p *processing) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
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

// A calling is a running call of a function of Code.
type calling struct {
	name    string          // of the function
	running context.Context // ends when the call has returned
	cancel  func()
	err     error // result of the call; read only after running has ended
}

// call calls a function of Code, named name.
func (r *checkRun) call(name string, f func(ctx context.Context) error) *calling {
	ctx, cancel := context.WithCancel(r.ends)
	running, returned := context.WithCancel(context.Background())
	c := &calling{name: name, running: running, cancel: cancel}
	go func() {
		defer returned()
		c.err = f(ctx)
	}()
	return c
}

// consume calls Consume.
func (r *checkRun) consume(p *processing) *calling {
	return r.call("Consume", func(ctx context.Context) error { return r.Consume(ctx, r.s, p.process) })
}

// end ends a call, and returns when it has returned.
func (c *calling) end() {
	c.cancel()
	<-c.running.Done()
}

// gaveUp describes a call that did not do all in the time since began.
func (c *calling) gaveUp(began time.Time) string {
	if c.running.Err() != nil {
		return fmt.Sprintf("%s returned before it was to end: %v", c.name, c.err)
	}
	return fmt.Sprintf("%s had not processed all after %s (Config.WaitTimeout or the test's own deadline)", c.name, time.Since(began).Round(time.Millisecond))
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
	r.twice(p, f, phases{
		call:   func(int) *calling { return r.consume(p) },
		all:    func(c *calling) bool { return p.waitForAll(r, c) },
		settle: r.settle,
	})
	return p.text(r)
}

// phases are what twice does with a function of Code.
type phases struct {
	call   func(n int) *calling     // calls it; n is 1 for a member that joins, or 0
	all    func(call *calling) bool // waits until all records are processed; false: they are not
	settle func()                   // waits until all is committed, for a bounded time
	last   func()                   // is called before the last call; nil: nothing
}

// twice has the first half of the records processed, and the other half during the fault. If that
// is done, further records are processed by a new call. It shows the records that were not
// committed.
func (r *checkRun) twice(p *processing, f checkFault, do phases) {
	if f.ends {
		p.endAt = r.Records / 4
	}
	r.fill(p, r.Records/2)
	if !r.disturbed(p, f, do) {
		return
	}
	if do.last != nil {
		do.last()
	}
	r.fill(p, leastChecked)
	last := do.call(0)
	if do.all(last) {
		do.settle()
	}
	last.end()
}

// disturbed is the part of twice with the fault. It returns false if the fault did not occur, or
// records were not processed.
func (r *checkRun) disturbed(p *processing, f checkFault, do phases) bool {
	begun, connect := func() bool { return p.begun > 0 }, func() {}
	switch {
	case f.ends:
		begun = func() bool { return p.ended }
	case f.cutsOff != nil:
		begun, connect = r.cutOff(p, f)
	}
	first := do.call(0)
	defer func() { first.end() }()
	if !p.waitFor(r, first, begun) {
		return false
	}
	if f.ends || f.cutsOff != nil {
		first.end()
		connect()
		p.resume()
		first = do.call(0)
	}
	act := f.begin(r)
	if f.joins {
		second := do.call(1)
		defer second.end()
	}
	r.fill(p, r.Records-r.Records/2)
	act(first.running)
	if !do.all(first) {
		return false
	}
	do.settle()
	return true
}

// cutOff cuts the code off from the network as f describes. is reports, under p's mutex, whether
// that has happened, and connect ends it.
func (r *checkRun) cutOff(p *processing, f checkFault) (is func() bool, connect func()) {
	var off bool // guarded by p.mu
	cut := r.s.Fault(Fault{Decide: func(x *kafka.Exchange) *Effect {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case off:
			return &Effect{Close: true}
		case f.cutsOff(x):
			off = true
			p.wake()
			return &Effect{Close: true, AfterApply: f.served}
		}
		return nil
	}})
	return func() bool { return off }, cut.Remove
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

// committed reports whether a group has committed all records, and no offset beyond them.
func (r *checkRun) committed(ctx context.Context) bool {
	groups, _ := r.s.Cluster().Groups(ctx) // groups whose coordinators answer
	return slices.ContainsFunc(groups, func(g group.Info) bool {
		g, err := r.s.Cluster().Group(ctx, g.ID)
		for p := range r.Partitions {
			o, ok := g.Offsets[record.TopicPartition{Topic: r.Topic, Partition: int32(p)}]
			if err != nil || o.Offset != o.End || !ok {
				return false
			}
		}
		return true
	})
}

// waitForAll waits until all records are processed.
func (p *processing) waitForAll(r *checkRun, c *calling) bool {
	return p.waitFor(r, c, func() bool { return p.found.missing() == 0 })
}

// waitFor waits until cond returns true. It returns false if c returns first or the time is up.
func (p *processing) waitFor(r *checkRun, c *calling, cond func() bool) bool {
	ctx, cancel := r.step()
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	began := time.Now()
	if p.wait(ctx, cond) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found.failed = c.gaveUp(began)
	return false
}

func (p *processing) text(r *checkRun) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found.text(r.s)
}
