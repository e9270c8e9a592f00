package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// lostReply sends one record that is written, but whose first reply is lost on the way back. The
// producer cannot distinguish that from a record that never arrived, and sends it again.
func lostReply(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintln(out, "A card limit is raised by 100; the record is written, but the reply is lost:")
	for _, way := range []struct {
		name string
		cfg  producer.Config
	}{
		{"without idempotence", producer.Config{NoIdempotence: true}},
		{"with idempotence   ", producer.Config{}},
	} {
		before, err := records(ctx, cluster)
		if err != nil {
			return err
		}
		link := &unreliable{Backend: cluster}
		link.loseReplies.Store(1)
		err = withProducer(link, way.cfg, func(p *producer.Producer) error {
			if _, err := p.Send(ctx, record.String(at.Name("limits"), "card-1", "+100")); err != nil {
				return err
			}
			after, err := records(ctx, cluster)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %s  sent %d times, in the log %d times\n", way.name, link.sent.Load(), after-before)
			return nil
		})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, "The idempotent producer numbers its batches: the broker recognises the second one, and returns the offset of the first.")
	return err
}

// records returns the number of records in topic limits.
func records(ctx context.Context, cluster strata.Client) (int64, error) {
	ends, err := cluster.Offsets(ctx, at.Name("limits"), strata.Latest)
	return ends[record.TopicPartition{Topic: at.Name("limits")}], err
}

// unreliable is a connection to the broker that drops replies, or rejects every write.
type unreliable struct {
	producer.Backend
	refuse      bool
	loseReplies atomic.Int32
	sent        atomic.Int32
}

// errLost is retriable: the producer cannot know whether the record was written.
type errLost struct{}

func (errLost) Error() string   { return "the reply was lost" }
func (errLost) Retriable() bool { return true }

func (u *unreliable) Produce(req *partition.ProduceRequest) {
	u.sent.Add(1)
	done := req.Done
	if u.refuse {
		done(partition.ProduceResult{Err: errors.New("refused")})
		return
	}
	if u.loseReplies.Add(-1) >= 0 {
		req.Done = func(r partition.ProduceResult) { done(partition.ProduceResult{Err: errLost{}}) }
	}
	u.Backend.Produce(req)
}
