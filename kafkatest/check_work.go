package kafkatest

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/share"
)

// working collects the records that Work has processed.
type working struct {
	*processing
	topicID   [16]byte
	disturbed bool // there is a fault: records may be delivered again

	// The fields below are guarded by processing.mu.
	results map[string][]share.AckType // results of work, by name
	settled map[string]bool            // names of records that are done, and acknowledged
}

// resultOf returns the result of work for a record, which was delivered and processed n times
// before.
func resultOf(offset int64, n int) share.AckType {
	switch {
	case offset%5 == 2 && n == 0:
		return share.Release
	case offset%7 == 3:
		return share.Reject
	}
	return share.Accept
}

// work is called by Work for each record.
func (w *working) work(partition int32, offset int64) (share.AckType, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	if err := w.begin(); err != nil {
		return 0, err
	}
	name := offsetName(partition, offset)
	result := resultOf(offset, len(w.results[name]))
	w.results[name] = append(w.results[name], result)
	w.found.expect(name, int(offset)) // it may be read before fill knows its partition
	if result != share.Release && (w.found.times[name] == 0 || !w.disturbed || w.settled[name]) {
		w.found.add(partition, name)
	}
	return result, nil
}

// checkWork runs Work, and returns the findings in the processed records and in acknowledgements.
func (c *Code) checkWork(t *testing.T, f checkFault) string {
	r, cancel := c.start(t)
	defer cancel()
	w := &working{processing: newProcessing(c), disturbed: f.what != nothing, results: map[string][]share.AckType{}, settled: map[string]bool{}}
	w.found.anyOrder = true
	ctx, end := r.step()
	defer end()
	info, err := r.s.Cluster().Topic(ctx, c.Topic)
	if err != nil {
		return err.Error()
	}
	w.topicID = info.ID
	watched := r.s.Fault(Fault{APIs: []kafka.Key{kafka.ShareFetch, kafka.ShareAcknowledge}, Decide: func(x *kafka.Exchange) *Effect {
		w.examine(x.Request)
		return nil
	}})
	defer watched.Remove()
	r.twice(w.processing, f, phases{
		call: func(int) *calling {
			return r.call("Work", func(ctx context.Context) error { return c.Work(ctx, r.s, w.work) })
		},
		all:    func(call *calling) bool { return w.waitForAll(r, call) },
		settle: func() { r.settleShares(w.topicID) },
		last:   w.settle,
	})
	return w.text(r)
}

// settle is called when all records are done and acknowledged: they must not be delivered again.
func (w *working) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.found.times {
		w.settled[name] = true
	}
}

// examine looks for acknowledgements that work has not returned.
func (w *working) examine(req kmsg.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range acksIn(req) {
		if a.topicID != w.topicID {
			continue
		}
		for offset := a.first; offset <= a.last; offset++ {
			t := a.types[min(int(offset-a.first), len(a.types)-1)]
			name := offsetName(a.partition, offset)
			final := t == int8(share.Accept) || t == int8(share.Reject) || t == int8(share.Gap)
			if final && !slices.Contains(w.results[name], share.AckType(t)) && !slices.Contains(w.found.early, name) {
				w.found.early = append(w.found.early, name)
			}
		}
	}
}

// ackRange is a range of acknowledgements in a request.
type ackRange struct {
	topicID     [16]byte
	partition   int32
	first, last int64
	types       []int8 // one for each offset, or one for all
}

// acksIn yields the acknowledgements in a request of a member of a share group.
func acksIn(req kmsg.Request) iter.Seq[ackRange] {
	return func(yield func(ackRange) bool) {
		switch req := req.(type) {
		case *kmsg.ShareAcknowledgeRequest:
			for _, t := range req.Topics {
				for _, p := range t.Partitions {
					for _, b := range p.AcknowledgementBatches {
						if len(b.AcknowledgeTypes) > 0 && !yield(ackRange{t.TopicID, p.Partition, b.FirstOffset, b.LastOffset, b.AcknowledgeTypes}) {
							return
						}
					}
				}
			}
		case *kmsg.ShareFetchRequest:
			for _, t := range req.Topics {
				for _, p := range t.Partitions {
					for _, b := range p.AcknowledgementBatches {
						if len(b.AcknowledgeTypes) > 0 && !yield(ackRange{t.TopicID, p.Partition, b.FirstOffset, b.LastOffset, b.AcknowledgeTypes}) {
							return
						}
					}
				}
			}
		}
	}
}

// settlingShares is the time in which all records are acknowledged. It is longer than the locks of
// records whose acknowledgement was lost, and the requests of a silent broker.
const settlingShares = 2 * time.Minute

// settleShares waits until all records of the topic are acknowledged in a share group.
func (r *checkRun) settleShares(id [16]byte) {
	step, cancelStep := r.step()
	defer cancelStep()
	ctx, cancel := context.WithTimeout(step, settlingShares)
	defer cancel()
	for !r.acknowledged(ctx, id) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return // missing acknowledgements show as records that are delivered again
		}
	}
}

// acknowledged reports whether a share group has acknowledged all records of the topic.
func (r *checkRun) acknowledged(ctx context.Context, id [16]byte) bool {
	groups, _ := r.s.Cluster().Groups(ctx) // groups whose coordinators answer
	info, err := r.s.Cluster().Topic(ctx, r.Topic)
	shares, failed := r.s.Cluster().Backend().Shares()
	if err != nil || failed != nil {
		return false
	}
	for _, g := range groups {
		done := true
		for p := range info.Partitions {
			state, err := shares.StateSummary(ctx, share.Key{Group: g.ID, TopicID: id, Partition: int32(p)})
			done = done && err == nil && state != nil && state.Start >= info.Partitions[p].HighWatermark
		}
		if done {
			return true
		}
	}
	return false
}
