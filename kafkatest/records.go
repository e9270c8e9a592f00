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

// Fill produces records to a topic inside the process: there is no request, and no fault applies.
// It returns when all records are committed, or fails the test. A record goes to the partition of
// record.Record.To if that is set, else to the partition of its key, as with Kafka's clients.
func (s *Server) Fill(topic string, rs ...record.Record) {
	s.t.Helper()
	s.within(fmt.Sprintf("Fill(%s, %d records)", topic, len(rs)), func(s *Server, _ *visit) {
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

// Topic returns all committed records that a topic still has, ordered by partition and offset. It
// fails the test if the topic does not exist.
func (s *Server) Topic(topic string) (rs []record.Record) {
	s.t.Helper()
	s.within(fmt.Sprintf("Topic(%s)", topic), func(s *Server, _ *visit) { rs = s.topic(topic) })
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

// WaitRecords waits until n records have been committed to a topic, and returns its records as
// Topic does. The topic need not exist yet.
func (s *Server) WaitRecords(topic string, n int) (rs []record.Record) {
	s.t.Helper()
	s.within(fmt.Sprintf("WaitRecords(%s, %d)", topic, n), func(s *Server, _ *visit) { rs = s.waitRecords(topic, n) })
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

// waitRecords follows a topic until it has had n records, and reads to its end. For a topic that is
// created again the count starts at 0.
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
			err = ctx.Err() // Follow ends without an error
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

// collect appends the records of a sequence until there are most of them.
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

// nextOffsets returns the next offset to read of each partition.
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

// ends describes the offset up to which each partition of a topic was read.
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
