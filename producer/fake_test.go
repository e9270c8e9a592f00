package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// fake is a scriptable Backend: logs in memory with the leader's checks of sequence numbers.
type fake struct {
	// script decides the fate of a request; nil answers each at once
	script func(n int, req *partition.ProduceRequest, b *record.Batch) fate

	mu       sync.Mutex
	version  int64
	changed  chan struct{} // closed at the next change
	topics   map[string][]*fakePart
	ids      map[string]topic.ID
	requests []record.Batch // headers, in the order of arrival
	nextID   int64
	idErr    []error // errors of the next calls of InitProducerID
	kept     []keptBytes
	inFlight int
	most     int // in flight at once
}

// keptBytes is a request that the backend may still read, so the producer must not write to it.
type keptBytes struct{ bytes, copy []byte }

type fate struct {
	lost      bool  // the request never arrives
	replyLost bool  // it is applied, but the answer never arrives
	err       error // refused
	result    func(*partition.ProduceResult)
	delay     time.Duration // before the answer; 0 answers within Produce
}

type fakePart struct {
	leader, epoch int32
	values        []string
	keys          []string
	codec         record.Codec
	base          int64 // offset of the first value
	producers     map[int64]*fakeProducer
}

type fakeProducer struct {
	epoch int16
	last  []fakeBatch // up to five
}

type fakeBatch struct {
	first, last int32
	base        int64
}

func newFake(topics map[string]int) *fake {
	f := &fake{version: 1, changed: make(chan struct{}), topics: map[string][]*fakePart{}, ids: map[string]topic.ID{}, nextID: 1000}
	for name, n := range topics {
		f.grow(name, n)
	}
	return f
}

// grow gives a topic n partitions.
func (f *fake) grow(name string, n int) {
	f.change(func() {
		for len(f.topics[name]) < n {
			f.topics[name] = append(f.topics[name], &fakePart{leader: 1, producers: map[int64]*fakeProducer{}})
		}
	})
}

// recreate deletes a topic, if it exists, and creates it with n partitions and another id.
func (f *fake) recreate(name string, n int) {
	f.change(func() {
		f.topics[name], f.ids[name] = nil, topic.NewID()
		for range n {
			f.topics[name] = append(f.topics[name], &fakePart{leader: 1, producers: map[int64]*fakeProducer{}})
		}
	})
}

func (f *fake) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

// locked runs fn, which may read and change the state of the fake.
func (f *fake) locked(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

func (f *fake) part(name string, i int) *fakePart { return f.topics[name][i] }

func (f *fake) values(name string, i int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.topics[name][i].values)
}

func (f *fake) headers() []record.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fake) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	md := replication.Metadata{Version: f.version, Topics: map[string]replication.TopicMetadata{}}
	for _, name := range topics {
		parts, ok := f.topics[name]
		if !ok {
			md.Topics[name] = replication.TopicMetadata{Name: name, Err: fmt.Errorf("%w: %q", replication.ErrUnknownTopic, name)}
			continue
		}
		tm := replication.TopicMetadata{Name: name, ID: f.ids[name]}
		for _, p := range parts {
			tm.Partitions = append(tm.Partitions, replication.PartitionMetadata{Leader: p.leader, LeaderEpoch: p.epoch})
		}
		md.Topics[name] = tm
	}
	return md, ctx.Err()
}

func (f *fake) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	for {
		f.mu.Lock()
		version, changed := f.version, f.changed
		f.mu.Unlock()
		if version > after {
			return version, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (f *fake) InitProducerID(ctx context.Context) (int64, int16, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idErr) > 0 {
		err := f.idErr[0]
		f.idErr = f.idErr[1:]
		return 0, 0, err
	}
	f.nextID++
	return f.nextID, 0, ctx.Err()
}

func (f *fake) Produce(req *partition.ProduceRequest) {
	f.mu.Lock()
	b, n, err := record.Parse(req.Batch)
	if err != nil || n != len(req.Batch) {
		panic(fmt.Sprintf("request is not one batch: %v", err))
	}
	f.requests = append(f.requests, *b)
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	number := len(f.requests) - 1
	f.mu.Unlock()
	var ft fate
	if f.script != nil {
		ft = f.script(number, req, b)
	}
	res := partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: ft.err}
	f.mu.Lock()
	if !ft.lost && ft.err == nil {
		f.append(req, b, &res)
	}
	if ft.lost || ft.replyLost {
		res = partition.ProduceResult{BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, LeaderEpoch: -1, Err: partition.ErrTimeout}
		f.kept = append(f.kept, keptBytes{req.Batch, slices.Clone(req.Batch)})
	}
	f.mu.Unlock()
	if ft.result != nil {
		ft.result(&res)
	}
	answer := func() {
		f.mu.Lock()
		f.inFlight--
		f.mu.Unlock()
		req.Done(res)
	}
	if ft.delay == 0 {
		answer()
		return
	}
	time.AfterFunc(ft.delay, answer)
}

// append does the work of a leader. The caller holds mu.
func (f *fake) append(req *partition.ProduceRequest, b *record.Batch, res *partition.ProduceResult) {
	parts := f.topics[req.TopicPartition.Topic]
	if req.TopicID != f.ids[req.TopicPartition.Topic] || int(req.TopicPartition.Partition) >= len(parts) {
		res.Err = replication.ErrUnknownTopic
		return
	}
	p := parts[req.TopicPartition.Partition]
	if p.leader < 0 {
		res.Err = partition.ErrNotLeader
		return
	}
	res.LeaderEpoch = p.epoch
	base := p.base + int64(len(p.values))
	if b.HasProducerID() {
		if dup, err := p.checkSequence(b); err != nil {
			res.Err = err
			return
		} else if dup >= 0 {
			res.BaseOffset, res.Duplicate = dup, true
			return
		}
		s := p.producers[b.ProducerID]
		s.last = append(s.last, fakeBatch{b.BaseSequence, b.LastSequence(), base})
		s.last = s.last[max(0, len(s.last)-5):]
	}
	for r, err := range b.All() {
		if err != nil {
			panic(err)
		}
		p.values = append(p.values, string(r.Value))
		p.keys = append(p.keys, string(r.Key))
	}
	p.codec = b.Codec()
	res.BaseOffset = base
}

// checkSequence follows reference §6. It returns the offset of a duplicate, or -1 if there is
// none.
func (p *fakePart) checkSequence(b *record.Batch) (dup int64, err error) {
	s := p.producers[b.ProducerID]
	if s == nil {
		p.producers[b.ProducerID] = &fakeProducer{epoch: b.ProducerEpoch}
		return -1, nil
	}
	if s.epoch == b.ProducerEpoch {
		for _, l := range s.last {
			if l.first == b.BaseSequence && l.last == b.LastSequence() {
				return l.base, nil
			}
		}
	}
	switch {
	case b.ProducerEpoch < s.epoch:
		return -1, partition.ErrInvalidProducerEpoch
	case b.ProducerEpoch > s.epoch:
		if b.BaseSequence != 0 {
			return -1, partition.ErrOutOfOrderSequence
		}
		*s = fakeProducer{epoch: b.ProducerEpoch}
	case len(s.last) > 0 && b.BaseSequence != addSequence(s.last[len(s.last)-1].last, 1):
		return -1, partition.ErrOutOfOrderSequence
	}
	return -1, nil
}

// checkKept returns an error if a request that the backend may still read was written to.
func (f *fake) checkKept() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.kept {
		if !slices.Equal(k.bytes, k.copy) {
			return errors.New("the bytes of a request were written to after its time-out")
		}
	}
	return nil
}
