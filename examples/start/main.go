// Command start shows where a consumer starts to read: at the earliest or the latest record, at the
// committed offset of its group, or at an offset of the application. It also shows the group's
// offsets in the topic __consumer_offsets.
//
//	go run ./examples/start
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const topicName = "orders"

var orders = record.TopicPartition{Topic: topicName} // its only partition

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, topicName, topic.Config{Partitions: 1}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	s := &scenes{cluster: cluster, p: p, out: out}
	for i := range 10 {
		if err := s.send(ctx, fmt.Sprint("order ", i)); err != nil {
			return err
		}
	}
	for _, scene := range []func(context.Context) error{s.newGroup, s.restart, s.ownOffsets, s.offsetsTopic} {
		if err := scene(ctx); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// scenes share a topic of ten orders.
type scenes struct {
	cluster *strata.Cluster
	p       *producer.Producer
	out     io.Writer
	sent    int // records in the topic
}

func (s *scenes) send(ctx context.Context, value string) error {
	_, err := s.p.Send(ctx, record.String(topicName, "", value))
	if err == nil {
		s.sent++
	}
	return err
}

// read returns the first n records that a consumer of cfg gets,
// and commits them if it is in a group.
func (s *scenes) read(ctx context.Context, cfg consumer.Config, n int) (rs []record.Record, err error) {
	c, err := consumer.New(s.cluster, cfg)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for r, err := range c.Records(ctx) {
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
		if cfg.Group != "" {
			if err := c.Commit(ctx, r); err != nil {
				return nil, err
			}
		}
		if len(rs) == n {
			break
		}
	}
	return rs, nil
}

// committed returns the committed offset of the group, -1 if it has none.
func (s *scenes) committed(ctx context.Context, group string) (int64, error) {
	offsets, err := s.cluster.FetchOffsets(ctx, group, []record.TopicPartition{orders})
	if err != nil {
		return 0, err
	}
	if o, ok := offsets[orders]; ok {
		return o.Offset, nil
	}
	return -1, nil
}

func span(rs []record.Record) string {
	return fmt.Sprintf("%q to %q", rs[0].Value, rs[len(rs)-1].Value)
}
