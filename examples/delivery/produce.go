package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

const sent = 200

// producerSide sends records over a bad network: every 10th request gets lost on its way,
// and every 10th reply on its way back.
func producerSide(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintf(out, "%d records over a network that loses every 10th request and every 10th reply:\n\n", sent)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  producer\tlost\trepeated")
	for _, way := range []struct {
		name, topic string
		cfg         producer.Config
	}{
		{"no acknowledgement, no retries", "none", producer.Config{Acks: record.AcksNone, Retries: producer.NoRetries}},
		{"acknowledged by all, retried", "retried", producer.Config{NoIdempotence: true}},
		{"the same, idempotent", "idempotent", producer.Config{}},
	} {
		way.cfg.RetryBackoff = time.Millisecond
		if err := sendAll(ctx, &badNetwork{Backend: cluster}, way.cfg, way.topic); err != nil {
			return err
		}
		// Sends without an acknowledgement return before their records are written. When a later
		// record is acknowledged, they are written, unless they went over a network: this producer
		// has another connection.
		if err := sendLast(ctx, cluster, way.topic); err != nil {
			return err
		}
		if at.Elsewhere() {
			time.Sleep(time.Second)
		}
		seen, err := count(ctx, cluster, way.topic)
		if err != nil {
			return err
		}
		lost, repeated := tally(seen, sent)
		fmt.Fprintf(w, "  %s\t%d\t%d\n", way.name, lost, repeated)
	}
	return w.Flush()
}

func sendAll(ctx context.Context, b producer.Backend, cfg producer.Config, topic string) error {
	p, err := producer.New(b, cfg)
	if err != nil {
		return err
	}
	for i := range sent {
		if _, err := p.Send(ctx, record.String(at.Name(topic), "", strconv.Itoa(i))); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return p.Close()
}

// sendLast sends a record that is not counted, and waits until it is written.
func sendLast(ctx context.Context, b producer.Backend, topic string) error {
	p, err := producer.New(b, producer.Config{})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, record.String(at.Name(topic), "", "last"))
	return errors.Join(err, p.Close())
}

// count reads the topic to its end.
func count(ctx context.Context, cluster strata.Client, topic string) (map[string]int, error) {
	seen := map[string]int{}
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: at.Name(topic)}) {
		if err != nil {
			return nil, err
		}
		seen[string(r.Value)]++
	}
	return seen, nil
}

// badNetwork is a way to the broker that loses requests and replies.
type badNetwork struct {
	producer.Backend
	requests atomic.Int32
}

// errLost is retriable: the producer cannot know whether its request was applied.
type errLost struct{}

func (errLost) Error() string   { return "lost" }
func (errLost) Retriable() bool { return true }

func (n *badNetwork) Produce(req *partition.ProduceRequest) {
	done := req.Done
	switch n.requests.Add(1) % 10 {
	case 3:
		done(partition.ProduceResult{Err: errLost{}})
		return
	case 8:
		req.Done = func(partition.ProduceResult) { done(partition.ProduceResult{Err: errLost{}}) }
	}
	n.Backend.Produce(req)
}
