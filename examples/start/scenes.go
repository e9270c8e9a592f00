package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

// newGroup: a group without a committed offset starts at the Reset of its members.
func (s *scenes) newGroup(ctx context.Context) error {
	fmt.Fprintln(s.out, "The topic has ten orders. A new group has no committed offset, which is reported as -1:")
	for _, way := range []struct {
		group string
		reset consumer.Reset
	}{{"earliest", consumer.Earliest()}, {"latest", consumer.Latest()}} {
		before, err := s.committed(ctx, way.group)
		if err != nil {
			return err
		}
		c, err := consumer.New(s.cluster, consumer.Config{Group: way.group, Topics: []string{topicName}, Reset: way.reset})
		if err != nil {
			return err
		}
		defer c.Close()
		b, err := pollUntilLocated(ctx, c)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  %-8s  committed %d, gets %d records, position %d\n", way.group, before, b.Len(), c.Position(orders))
		if err := s.send(ctx, "one more order"); err != nil {
			return err
		}
		if b, err = c.Poll(ctx); err != nil {
			return err
		}
		for r := range b.All() {
			fmt.Fprintf(s.out, "            then a new record: offset %d, %q\n", r.Offset, r.Value)
		}
		if err := c.CommitReturned(ctx); err != nil {
			return err
		}
		after, err := s.committed(ctx, way.group)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "            committed %d\n", after)
	}
	return nil
}

// pollUntilLocated polls until c has a position, and returns the records it got until then.
func pollUntilLocated(ctx context.Context, c *consumer.Consumer) (*consumer.Batch, error) {
	for {
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		b, err := c.Poll(short)
		cancel()
		switch {
		case err == nil:
			return b, nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return nil, err
		case c.Position(orders) >= 0:
			return &consumer.Batch{}, nil // at the end: there is nothing yet
		}
	}
}

// restart: a group continues at its committed offset, with any member.
func (s *scenes) restart(ctx context.Context) error {
	fmt.Fprintln(s.out, "A consumer reads four orders and stops; the next one of its group continues after them\n(# is a record that it reads, . another record, | the position):")
	cfg := consumer.Config{Group: "billing", Topics: []string{topicName}, Commit: consumer.CommitManual}
	for life := 1; life <= 2; life++ {
		rs, err := s.read(ctx, cfg, 4)
		if err != nil {
			return err
		}
		next, err := s.committed(ctx, cfg.Group)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  life %d reads %s, commits %d     %s\n", life, span(rs), next, s.drawing(rs))
	}
	return nil
}

// ownOffsets: a consumer without a group starts at a given offset, and commits nothing.
func (s *scenes) ownOffsets(ctx context.Context) error {
	fmt.Fprintln(s.out, "A consumer without a group stores its offset itself, for example with its results:")
	for _, at := range []int64{7, 2} {
		rs, err := s.read(ctx, consumer.Config{Assign: record.Offsets{orders: at}}, 2)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  started at %d it reads %s     %s\n", at, span(rs), s.drawing(rs))
	}
	return nil
}

// drawing returns a picture of the topic: the records rs, which were read, and those before and
// after.
func (s *scenes) drawing(rs []record.Record) string {
	after := int(rs[len(rs)-1].Offset) + 1
	return strings.Repeat(".", int(rs[0].Offset)) + strings.Repeat("#", len(rs)) + "|" + strings.Repeat(".", s.sent-after)
}

// offsetKey is the largest version of the keys of committed offsets. Package kmsg has the formats.
const offsetKey = 1

// offsetsTopic reads the commits of group billing from the internal topic, where each is a record
// and the last one of a key is valid.
func (s *scenes) offsetsTopic(ctx context.Context) error {
	const topic = "__consumer_offsets"
	md, err := s.cluster.Metadata(ctx, topic)
	if err != nil {
		return err
	}
	p, err := s.cluster.Backend().OffsetsPartition(ctx, "billing", false)
	if err != nil {
		return err
	}
	tp := record.TopicPartition{Topic: topic, Partition: p}
	fmt.Fprintf(s.out, "Group billing is stored in partition %d of the %d of %s; its coordinator is the leader of that partition, broker %d:\n",
		tp.Partition, len(md.Topics[tp.Topic].Partitions), tp.Topic, md.Topics[tp.Topic].Partitions[tp.Partition].Leader)
	ends, err := s.cluster.Offsets(ctx, tp.Topic, strata.Latest)
	if err != nil {
		return err
	}
	rs, err := s.read(ctx, consumer.Config{Assign: record.Offsets{tp: 0}}, int(ends[tp]))
	if err != nil {
		return err
	}
	for _, r := range rs {
		if binary.BigEndian.Uint16(r.Key) > offsetKey {
			continue // not an offset but the members of a group
		}
		var key kmsg.OffsetCommitKey
		var value kmsg.OffsetCommitValue
		if err := errors.Join(key.ReadFrom(r.Key), value.ReadFrom(r.Value)); err != nil {
			return err
		}
		if key.Group != "billing" {
			continue
		}
		fmt.Fprintf(s.out, "  record %d: (%s, %s-%d) -> offset %d\n", r.Offset, key.Group, key.Topic, key.Partition, value.Offset)
	}
	return nil
}
