package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Fill produces records to a topic, inside the process: no request is made, no fault hits it. It returns when all are committed, or fails
// the test. A record goes to the partition that record.Record.To says, else to that of its key, as with Kafka's clients.
func (s *Server) Fill(topic string, rs ...record.Record) {
	s.t.Helper()
	if err := s.fill(topic, rs); err != nil {
		s.t.Fatalf("kafkatest: fill %s: %v", topic, err)
	}
}

func (s *Server) fill(topic string, rs []record.Record) error {
	rs = slices.Clone(rs)
	for i := range rs {
		if rs[i].Topic != "" && rs[i].Topic != topic {
			return fmt.Errorf("record %d is for topic %s", i, rs[i].Topic)
		}
		rs[i].Topic = topic
	}
	ctx, cancel := s.waitContext()
	defer cancel()
	p, err := producer.New(s.Cluster(), producer.Config{})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, rs...)
	return errors.Join(err, p.Close())
}

// Topic returns all committed records of a topic that it still holds, by partition and in the order of each. It fails the test if there is no such topic.
func (s *Server) Topic(topic string) []record.Record {
	s.t.Helper()
	ctx, cancel := s.waitContext()
	defer cancel()
	r := reader{c: s.Cluster(), topic: topic}
	if err := r.catchUp(ctx); err != nil {
		s.t.Fatalf("kafkatest: read %s: %v", topic, err)
	}
	return r.sorted()
}

// WaitRecords waits until a topic, which need not exist yet, has had n committed records, and returns all of them as Topic does.
func (s *Server) WaitRecords(topic string, n int) []record.Record {
	s.t.Helper()
	ctx, cancel := s.waitContext()
	defer cancel()
	r := reader{c: s.Cluster(), topic: topic}
	for {
		err := r.catchUp(ctx)
		if err == nil && len(r.records) >= n {
			return r.sorted()
		}
		if err == nil || errors.Is(err, strata.ErrUnknownTopic) {
			err = r.wait(ctx)
		}
		if err != nil {
			s.t.Fatalf("kafkatest: waiting for %d records of %s: %v; it has %d: %s\n%s", n, topic, err, len(r.records), r.ends(), s.dump())
		}
	}
}

// A reader reads a topic from its beginning on.
type reader struct {
	c       *strata.Cluster
	topic   string
	version int64 // of the metadata that is known
	next    map[record.TopicPartition]int64
	records []record.Record
}

// catchUp reads all that is committed. It returns strata.ErrUnknownTopic if there is no such topic.
func (r *reader) catchUp(ctx context.Context) error {
	for {
		if err := r.lookAround(ctx); err != nil {
			return err
		}
		switch n, err := r.fetch(ctx, 0); {
		case err != nil:
			return err
		case n == 0:
			return nil
		}
	}
}

// lookAround finds partitions that are not known yet.
func (r *reader) lookAround(ctx context.Context) error {
	md, err := r.c.Metadata(ctx, r.topic)
	if err != nil {
		return err
	}
	r.version = md.Version
	if err := md.Topics[r.topic].Err; err != nil {
		return err
	}
	if len(r.next) == len(md.Topics[r.topic].Partitions) {
		return nil
	}
	starts, err := r.c.Offsets(ctx, r.topic, strata.Earliest)
	if err != nil {
		return err
	}
	if r.next == nil {
		r.next = record.Offsets{}
	}
	for tp, start := range starts {
		if _, known := r.next[tp]; !known {
			r.next[tp] = start
		}
	}
	return nil
}

// fetch reads once, after waiting up to wait for something to come, and returns how many records there were, skipped ones included.
func (r *reader) fetch(ctx context.Context, wait time.Duration) (n int64, err error) {
	req := partition.FetchRequest{MaxWait: wait}
	for tp, next := range r.next {
		req.Partitions = append(req.Partitions, partition.FetchPartition{TopicPartition: tp, Offset: next})
	}
	resp, err := r.c.Fetch(ctx, &req)
	if err != nil {
		return 0, err
	}
	for _, p := range resp.Partitions {
		if errors.Is(p.Err, partition.ErrOffsetOutOfRange) { // the start has moved on: records were deleted, or have expired
			delete(r.next, p.TopicPartition)
			n++
			continue
		}
		if p.Err != nil {
			return n, fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, p.Err)
		}
		before := r.next[p.TopicPartition]
		if err := r.take(p.TopicPartition, p.Bytes); err != nil {
			return n, fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, err)
		}
		n += r.next[p.TopicPartition] - before
	}
	return n, nil
}

// take adds the records of a partition's batches.
func (r *reader) take(tp record.TopicPartition, p []byte) error {
	for len(p) > 0 {
		b, size, err := record.Parse(p)
		if err != nil {
			return err
		}
		p = p[size:]
		from := r.next[tp]
		r.next[tp] = max(from, b.NextOffset())
		if b.IsControl() {
			continue
		}
		for rec, err := range b.All() {
			if err != nil {
				return err
			}
			if rec.Offset >= from {
				rec.Topic, rec.Partition = tp.Topic, tp.Partition
				r.records = append(r.records, rec)
			}
		}
	}
	return nil
}

// wait returns when there may be more to read, or something about topics has changed.
func (r *reader) wait(ctx context.Context) error {
	if len(r.next) == 0 {
		_, err := r.c.WaitMetadata(ctx, r.version)
		return err
	}
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.c.WaitMetadata(either, r.version) // its error is ctx's or that of a closed cluster, which fetch has too
		cancel()
	}()
	_, err := r.fetch(either, time.Until(deadlineOf(ctx)))
	cancel()
	<-watched
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return nil // topics changed
	}
	return errors.Join(err, ctx.Err())
}

func deadlineOf(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}

// sorted returns the records by partition.
func (r *reader) sorted() []record.Record {
	slices.SortStableFunc(r.records, func(a, b record.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	return r.records
}

// ends says how far each partition was read.
func (r *reader) ends() string {
	if len(r.next) == 0 {
		return "no such topic"
	}
	var s string
	for _, tp := range slices.SortedFunc(maps.Keys(r.next), func(a, b record.TopicPartition) int { return cmp.Compare(a.Partition, b.Partition) }) {
		s += fmt.Sprintf(" %d:%d", tp.Partition, r.next[tp])
	}
	return "read up to (partition:offset)" + s
}
