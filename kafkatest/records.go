package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Fill produces records to a topic, inside the process: no request is made, no fault hits it. It
// returns when all are committed, or fails the test. A record goes to the partition that
// record.Record.To says, else to that of its key, as with Kafka's clients.
func (s *Server) Fill(topic string, rs ...record.Record) {
	s.t.Helper()
	s.within(func(s *Server, _ *visit) {
		if err := s.fill(topic, rs); err != nil {
			s.t.Fatalf("kafkatest: fill %s: %v", topic, err)
		}
	})
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

// Topic returns all committed records of a topic that it still holds, by partition and in the order
// of each. It fails the test if there is no such topic.
func (s *Server) Topic(topic string) (rs []record.Record) {
	s.t.Helper()
	s.within(func(s *Server, _ *visit) { rs = s.topic(topic) })
	return rs
}

func (s *Server) topic(topic string) []record.Record {
	ctx, cancel := s.waitContext()
	defer cancel()
	rs, err := collect(nil, consumer.Read(ctx, s.Cluster(), consumer.ReadConfig{Topic: topic}), math.MaxInt)
	if err != nil {
		s.t.Fatalf("kafkatest: read %s: %v", topic, err)
	}
	return byPartition(rs)
}

// WaitRecords waits until a topic, which need not exist yet, has had n committed records,
// and returns all of them as Topic does.
func (s *Server) WaitRecords(topic string, n int) (rs []record.Record) {
	s.t.Helper()
	s.within(func(s *Server, _ *visit) { rs = s.waitRecords(topic, n) })
	return rs
}

func (s *Server) waitRecords(topic string, n int) []record.Record {
	ctx, cancel := s.waitContext()
	defer cancel()
	rs, err := waitRecords(ctx, s.Cluster(), topic, n)
	if err != nil {
		s.t.Fatalf("kafkatest: waiting for %d records of %s: %v; it has %d: %s\n%s", n, topic, err, len(rs), s.ends(topic, rs), s.dump())
	}
	return byPartition(rs)
}

// waitRecords follows a topic until it has had n records, and reads on to its end. A
// topic that is made again begins anew.
func waitRecords(ctx context.Context, c *strata.Cluster, topic string, n int) ([]record.Record, error) {
	for {
		md, err := c.Metadata(ctx, topic)
		if err != nil {
			return nil, err
		}
		var rs []record.Record
		if n > 0 {
			rs, err = collect(nil, consumer.Follow(ctx, c, consumer.ReadConfig{Topic: topic}), n)
		}
		if err == nil && len(rs) < n {
			err = ctx.Err() // Follow ends silently
		}
		if err == nil {
			rs, err = collect(rs, consumer.Read(ctx, c, consumer.ReadConfig{Topic: topic, Start: nextOffsets(rs)}), math.MaxInt)
		}
		switch {
		case errors.Is(err, consumer.ErrTopicReplaced):
		case errors.Is(err, strata.ErrUnknownTopic):
			if _, err := c.WaitMetadata(ctx, md.Version); err != nil {
				return rs, err
			}
		default:
			return rs, err
		}
	}
}

// collect appends what a sequence yields until there are most records.
func collect(rs []record.Record, seq iter.Seq2[record.Record, error], most int) ([]record.Record, error) {
	for r, err := range seq {
		if err != nil {
			return rs, err
		}
		if rs = append(rs, r); len(rs) >= most {
			break
		}
	}
	return rs, nil
}

// nextOffsets says where to read on.
func nextOffsets(rs []record.Record) record.Offsets {
	next := record.Offsets{}
	for _, r := range rs {
		next[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
	}
	return next
}

func byPartition(rs []record.Record) []record.Record {
	slices.SortStableFunc(rs, func(a, b record.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	return rs
}

// ends says how far each partition of a topic was read.
func (s *Server) ends(topic string, rs []record.Record) string {
	// does not wait
	starts, err := s.Cluster().Offsets(context.Background(), topic, strata.Earliest)
	if err != nil {
		return "no such topic"
	}
	maps.Copy(starts, nextOffsets(rs))
	text := "read up to (partition:offset)"
	for _, tp := range slices.SortedFunc(maps.Keys(starts), func(a, b record.TopicPartition) int { return cmp.Compare(a.Partition, b.Partition) }) {
		text += fmt.Sprintf(" %d:%d", tp.Partition, starts[tp])
	}
	return text
}
