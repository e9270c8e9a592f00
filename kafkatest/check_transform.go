package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// transformed returns the result that Transform writes for a record.
func (c *Code) transformed(partition int32, offset int64) record.Record {
	return record.String(c.Output, fmt.Sprintf("key %d", offset%7), offsetName(partition, offset))
}

// transform is called by Transform for each record.
func (p *processing) transform(partition int32, offset int64) (record.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.wake()
	if err := p.begin(); err != nil {
		return record.Record{}, err
	}
	return p.code.transformed(partition, offset), nil
}

// checkTransform runs Transform, and returns the findings in the log of Output and in the offsets
// of the group.
func (c *Code) checkTransform(t *testing.T, f checkFault) string {
	r, cancel := c.start(t)
	defer cancel()
	p := newProcessing(c)
	r.twice(p, f, phases{
		call: func(n int) *calling {
			id := fmt.Sprintf("%s-%d", c.Topic, n)
			return r.call("Transform", func(ctx context.Context) error { return c.Transform(ctx, r.s, id, p.transform) })
		},
		all:    func(call *calling) bool { return r.waitForOutput(p, call) },
		settle: r.settle,
	})
	failed := r.decided("Transform")
	ctx, end := r.step()
	defer end()
	if p.found.failed == "" && !r.committed(ctx) {
		failed = errors.Join(failed, fmt.Errorf("no group has committed the end of each partition of %s", c.Topic))
	}
	if failed != nil {
		p.fail(failed.Error())
	}
	r.addOutput(p)
	return p.text(r)
}

// fail adds a failure of the code.
func (p *processing) fail(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found.failed != "" {
		what = p.found.failed + "; " + what
	}
	p.found.failed = what
}

// waitForOutput waits until Output has the results of all records. It returns false if call returns
// first or the time is up.
func (r *checkRun) waitForOutput(p *processing, call *calling) bool {
	ctx, cancel := r.step()
	defer cancel()
	defer context.AfterFunc(call.running, cancel)()
	began, seen := time.Now(), map[string]bool{}
	p.mu.Lock()
	want := len(p.found.ranks)
	p.mu.Unlock()
	for ctx.Err() == nil && len(seen) < want {
		for w, err := range consumer.Follow(ctx, r.s.Cluster(), consumer.ReadConfig{Topic: r.Output}) {
			if err != nil {
				break // brokers are down for a while; it is followed again from the beginning
			}
			if seen[string(w.Value)] = true; len(seen) >= want {
				return true
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	p.fail(call.gaveUp(began))
	return false
}

// addOutput adds the committed records of Output to the findings. In each of its partitions, the
// results of one partition of Topic have an order.
func (r *checkRun) addOutput(p *processing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	type result struct {
		partition int32
		key       string
	}
	results := map[string]result{}
	for _, read := range r.s.Topic(r.Topic) {
		w := r.transformed(read.Partition, read.Offset)
		results[string(w.Value)] = result{read.Partition, string(w.Key)}
	}
	for _, w := range r.s.Topic(r.Output) {
		name := string(w.Value)
		of, known := results[name]
		if known && string(w.Key) != of.key {
			p.found.altered = append(p.found.altered, fmt.Sprintf("the key of the result of %s is %q", name, w.Key))
		}
		p.found.add(w.Partition*int32(r.Partitions)+of.partition, name)
	}
}
