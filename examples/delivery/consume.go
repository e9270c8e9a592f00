package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

const (
	crashAt     = 550 // number of the record after whose processing the worker crashes
	commitEvery = 100
)

// consumerSide lets a worker crash once with each way of committing, with data that tolerates it
// and data that does not.
func consumerSide(ctx context.Context, cluster strata.Client, out io.Writer) error {
	for _, u := range []use{courier(), orderStates(), cardLimits()} {
		if err := fill(ctx, cluster, u); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d records each, commits every %d, a crash after the work on record %d:\n\n", total, commitEvery, crashAt)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  delivery\tdata\tlost\trepeated\tresult\trecords 400 to 700")
	const (
		atMostOnce  = "at most once: commit, then work"
		atLeastOnce = "at least once: work, then commit"
		exactlyOnce = "exactly once: work and offset in one store"
	)
	for i, line := range []struct {
		way string
		use use
	}{
		{atMostOnce, courier()}, {atMostOnce, cardLimits()},
		{atLeastOnce, orderStates()}, {atLeastOnce, cardLimits()},
		{exactlyOnce, cardLimits()},
	} {
		wk := &worker{use: line.use, memory: memory{state: map[string]int{}, seen: map[string]int{}, next: record.Offsets{}}}
		cfg := consumer.Config{Group: at.Name(fmt.Sprint("way-", i)), InstanceID: "worker", Topics: []string{at.Name(line.use.topic)}, MaxPollRecords: 150}
		switch line.way {
		case atMostOnce:
			cfg.Commit = consumer.CommitBeforeDelivery
		case atLeastOnce:
			cfg.Commit = consumer.CommitManual
		case exactlyOnce:
			cfg.Commit, cfg.StartAt = consumer.CommitManual, wk.startAt
		}
		for life := 1; !wk.done; life++ {
			if err := wk.live(ctx, cluster, cfg, life == 1); err != nil {
				return err
			}
		}
		lost, repeated := tally(wk.seen, total)
		verdict := "right"
		if !maps.Equal(wk.state, wk.use.want) {
			verdict = "WRONG"
		}
		fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%s\t%s\n", line.way, line.use.topic, lost, repeated, verdict, draw(wk.seen, 400, 700))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nA character is every %dth record: # worked on once, 2 twice, . lost.\n", perSign)
	return err
}

const perSign = 10 // a drawing shows every tenth record

// draw returns a character for the records from, from+perSign and so on: the number of times that
// each was worked on.
func draw(seen map[string]int, from, to int) string {
	var s strings.Builder
	for i := from; i < to; i += perSign {
		s.WriteByte(".#23456789"[min(seen[strconv.Itoa(i)], 9)])
	}
	return s.String()
}

// fill writes the records of u, numbered in their keys.
func fill(ctx context.Context, cluster strata.Client, u use) error {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	var rs []record.Record
	for i := range total {
		rs = append(rs, record.String(at.Name(u.topic), strconv.Itoa(i), u.value(i)))
	}
	_, err = p.Send(ctx, rs...)
	return errors.Join(err, p.Close())
}

// A worker applies the records of a topic. Its memory outlives its crashes, as a database would.
type worker struct {
	use use
	memory
	done bool
}

// memory holds the results and their offset in one place, so that they cannot disagree, as one
// database transaction would.
type memory struct {
	state map[string]int
	seen  map[string]int // how often each record was applied
	next  record.Offsets
}

func (m *memory) startAt(context.Context, []record.TopicPartition) (record.Offsets, error) {
	return maps.Clone(m.next), nil
}

// live is one run of the process. The first run is cut off in the middle: no later commit arrives,
// and it does not leave the group. The next run has the same InstanceID, so it takes its place in
// the group at once.
func (w *worker) live(ctx context.Context, cluster strata.Client, cfg consumer.Config, crash bool) error {
	l := &link{Backend: cluster}
	c, err := consumer.New(l, cfg)
	if err != nil {
		return err
	}
	for r, err := range c.Records(ctx) {
		if err != nil {
			return errors.Join(err, c.Close())
		}
		w.work(r)
		if crash && r.Offset == crashAt {
			l.cut.Store(true)
			_ = c.Close() // only ends the goroutines: no request reaches the broker any more
			return nil
		}
		if cfg.Commit == consumer.CommitManual && r.Offset%commitEvery == commitEvery-1 {
			if err := c.Commit(ctx, r); err != nil {
				return errors.Join(err, c.Close())
			}
		}
		if w.done = r.Offset == total-1; w.done {
			break
		}
	}
	return c.Close()
}

func (w *worker) work(r record.Record) {
	i, _ := strconv.Atoi(string(r.Key))
	w.use.apply(w.state, i, string(r.Value))
	w.seen[string(r.Key)]++
	w.next[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
}

// A link is the connection to the broker, until it is cut.
type link struct {
	consumer.Backend
	cut atomic.Bool
}

var errCut = errors.New("cut off")

func (l *link) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	return l.Backend.CommitOffsets(ctx, req)
}
