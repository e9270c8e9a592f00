package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

func (s *storm) handle(member int) consumer.Handler {
	return func(ctx context.Context, r record.Record) error {
		defer s.begin(ctx, member, r)()
		err := s.act(ctx)
		if err == nil {
			s.finish(r)
		}
		return err
	}
}

func (s *storm) handleBatch(member int) consumer.BatchHandler {
	return func(ctx context.Context, rs []record.Record) error {
		defer s.begin(ctx, member, rs...)()
		for i, r := range rs {
			if s.chance(3) {
				if err := s.act(ctx); err != nil {
					return &consumer.BatchError{Done: i, Err: err}
				}
			}
			s.finish(r)
		}
		return nil
	}
}

// act is the body of the handlers: it hangs, panics, fails or succeeds by chance.
func (s *storm) act(ctx context.Context) error {
	s.mu.Lock()
	what, long := s.rnd.IntN(40), time.Duration(s.rnd.IntN(4000))*time.Millisecond
	if s.calm {
		what = 100
	}
	s.mu.Unlock()
	switch {
	case what == 0:
		time.Sleep(90 * time.Second) // hangs for longer than any timeout
		return nil
	case what == 1:
		panic("handler")
	case what == 2:
		runtime.Goexit()
	case what == 3:
		return consumer.Permanent(errors.New("never"))
	case what < 8:
		return errors.New("no luck")
	case what < 20:
		select {
		case <-time.After(long):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// begin checks that the records may be processed now, and returns a function that ends the call.
func (s *storm) begin(ctx context.Context, member int, rs ...record.Record) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.calm && s.calls > 1_000_000 {
		s.t.Fatal("it never ends")
	}
	if rs[0].Topic != "t" {
		return func() {}
	}
	call := &stormCall{ctx: ctx, member: member, partition: rs[0].Partition, key: string(rs[0].Key)}
	for other := range s.running {
		if other.partition == call.partition && (s.order == consumer.ByPartition || other.key == call.key) && other.ctx.Err() == nil {
			s.t.Errorf("two calls of partition %d, key %s: of members %d and %d", call.partition, call.key, other.member, member)
		}
	}
	for i, r := range rs {
		for offset, key := range s.sent[r.Partition][:r.Offset] {
			inOrder := s.order == consumer.ByPartition || key == string(r.Key)
			inBatch := offset >= int(rs[0].Offset) && slices.ContainsFunc(rs[:i], func(b record.Record) bool { return b.Offset == int64(offset) })
			if s.retry == nil && inOrder && !inBatch && !s.finished[r.Partition][int64(offset)] {
				s.t.Errorf("partition %d: offset %d before %d is done", r.Partition, r.Offset, offset)
			}
		}
	}
	s.running[call] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, call)
	}
}

func (s *storm) finish(r record.Record) {
	from, offset, _ := consumer.Origin(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished[from.Partition] == nil {
		s.finished[from.Partition] = map[int64]bool{}
	}
	s.finished[from.Partition][offset] = true
}

func (s *storm) revoked(member int) func(context.Context, []record.TopicPartition) {
	return func(_ context.Context, tps []record.TopicPartition) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for call := range s.running {
			if call.ctx.Err() == nil && call.member == member && slices.Contains(tps, tp(call.partition)) {
				s.t.Errorf("OnRevoked of partition %d beside a call", call.partition)
			}
		}
	}
}

// checkCommitted checks that all committed records are done.
func (s *storm) checkCommitted() {
	if s.retry != nil {
		return // records in the retry topic are committed, and only checkAllDone checks them
	}
	for tp, offset := range committed(s.t, s.b, "g") {
		s.mu.Lock()
		for o := range offset {
			if !s.finished[tp.Partition][o] {
				s.t.Errorf("committed %d of partition %d, but %d is not done", offset, tp.Partition, o)
			}
		}
		s.mu.Unlock()
	}
}

func (s *storm) checkAllDone() {
	o := committed(s.t, s.b, "g")
	s.mu.Lock()
	defer s.mu.Unlock()
	for partition, keys := range s.sent {
		require.Equal(s.t, int64(len(keys)), o[tp(partition)], "partition %d", partition)
		require.Len(s.t, s.finished[partition], len(keys), "partition %d", partition)
	}
}
