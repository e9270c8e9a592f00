package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/record"
)

// newGroup: a group that never committed starts where its members' Reset says.
func (s *scenes) newGroup(ctx context.Context) error {
	fmt.Fprintln(s.out, "Ten orders are there before anybody reads. A new group has no offset, which is reported as -1:")
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
		fmt.Fprintf(s.out, "  %-8s  committed %d, finds %d records and stands at %d\n", way.group, before, b.Len(), c.Position(orders))
		if err := s.send(ctx, "one more order"); err != nil {
			return err
		}
		if b, err = c.Poll(ctx); err != nil {
			return err
		}
		for r := range b.All() {
			fmt.Fprintf(s.out, "            then one comes: offset %d, %q\n", r.Offset, r.Value)
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

// pollUntilLocated polls until c knows where it stands, and returns what it was given up to then.
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

// restart: a group goes on where it stopped, whoever reads for it.
func (s *scenes) restart(ctx context.Context) error {
	fmt.Fprintln(s.out, "A consumer reads four orders and stops; the next one of its group goes on behind them:")
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
		fmt.Fprintf(s.out, "  life %d reads %s, commits %d\n", life, span(rs), next)
	}
	return nil
}

// ownOffsets: a free consumer is told where to start, and nothing is committed for it.
func (s *scenes) ownOffsets(ctx context.Context) error {
	fmt.Fprintln(s.out, "A free consumer keeps its offset itself, say beside its results:")
	for _, at := range []int64{7, 2} {
		rs, err := s.read(ctx, consumer.Config{Assign: record.Offsets{orders: at}}, 2)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  started at %d it reads %s\n", at, span(rs))
	}
	return nil
}

// offsetsTopic reads the commits of group billing where they are kept: as records of an
// internal topic, the last of a key counts.
func (s *scenes) offsetsTopic(ctx context.Context) error {
	md, err := s.cluster.Metadata(ctx, offsets.Topic)
	if err != nil {
		return err
	}
	partitions := int32(len(md.Topics[offsets.Topic].Partitions))
	tp := record.TopicPartition{Topic: offsets.Topic, Partition: offsets.PartitionFor("billing", partitions)}
	fmt.Fprintf(s.out, "Group billing lives in partition %d of the %d of %s, and its coordinator is the leader of that one, broker %d:\n",
		tp.Partition, partitions, tp.Topic, md.Topics[tp.Topic].Partitions[tp.Partition].Leader)
	ends, err := s.cluster.Offsets(ctx, tp.Topic, strata.Latest)
	if err != nil {
		return err
	}
	rs, err := s.read(ctx, consumer.Config{Assign: record.Offsets{tp: 0}}, int(ends[tp]))
	if err != nil {
		return err
	}
	for _, r := range rs {
		key, known, err := offsets.ParseKey(r.Key)
		if err != nil {
			return err
		}
		if !known || key.Type != offsets.KeyOffset || key.Group != "billing" {
			continue // another group's, or who its members are
		}
		value, err := offsets.ParseOffsetValue(r.Value)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  record %d: (%s, %s-%d) -> offset %d\n", r.Offset, key.Group, key.Topic, key.Partition, value.Offset)
	}
	return nil
}
