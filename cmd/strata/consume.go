package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/record"
)

type consumeOptions struct {
	from, group, isolation string
	max                    int64
	partition              int32
	follow, values         bool
}

func (a *app) consumeCmd() *cobra.Command {
	var tg target
	var o consumeOptions
	c := &cobra.Command{
		Use: "consume TOPIC", Short: "Read records", Args: cobra.ExactArgs(1),
		Long: "consume prints the records of a topic, from the first one to those that are there when it starts; with --follow it waits for more, until\n" +
			"it is interrupted. Partitions are read side by side: records are in order within each.\n\n" +
			"With --group it is a member of that group, reads on where the group is, and commits what it has printed.",
		Example: "  strata consume orders -b localhost:9092\n" +
			"  strata consume orders --from 2026-01-31T12:00:00Z --max 10 --dir data --json\n" +
			"  strata consume orders --follow --from latest --values -b localhost:9092\n" +
			"  strata consume orders --group billing --max 100 -b localhost:9092",
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return a.consume(ctx, c, &tg, o, args[0])
	})
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&o.from, "from", "earliest", "where to start: earliest, latest, an offset, or a time (RFC 3339)")
	f.StringVar(&o.group, "group", "", "read as a member of this group; needs --follow or --max")
	f.StringVar(&o.isolation, "isolation", "committed", "committed: no records of aborted or open transactions; uncommitted: all")
	f.Int64Var(&o.max, "max", 0, "stop after so many records; 0: no limit")
	f.Int32Var(&o.partition, "partition", -1, "only this partition; -1: all")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more records at the end")
	f.BoolVar(&o.values, "values", false, "print values only, a line each")
	return c
}

// A reading is one run of the command.
type reading struct {
	*app
	o      consumeOptions
	client *kgo.Client
	ends   map[int32]int64 // not reached yet; nil: there is no end
	count  int64
}

func (a *app) consume(ctx context.Context, c *conn, tg *target, o consumeOptions, topic string) error {
	if o.group != "" && (o.partition >= 0 || !o.follow && o.max == 0) {
		return misuse("--group needs --follow or --max, and takes no --partition")
	}
	if o.values && a.json {
		return misuse("--values prints bytes, not JSON")
	}
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond)}
	switch o.isolation {
	case "committed":
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	case "uncommitted":
	default:
		return misuse("--isolation %s: it is committed or uncommitted", o.isolation)
	}
	r := &reading{app: a, o: o}
	bounded, cancel := tg.bounded(ctx)
	defer cancel()
	starts, err := resolve(bounded, c.admin, o.from, []string{topic})
	if err != nil {
		return err
	}
	if o.group != "" {
		opts = append(opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
			kgo.ConsumeResetOffset(groupStart(o.from)))
	} else {
		parts := map[int32]kgo.Offset{}
		for _, s := range starts {
			if o.partition < 0 || o.partition == s.Partition {
				parts[s.Partition] = kgo.NewOffset().At(s.Offset)
			}
		}
		if len(parts) == 0 {
			return fmt.Errorf("%s: no partition %d", topic, o.partition)
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts}))
		if !o.follow {
			if r.ends, err = ends(bounded, c, topic, parts); err != nil {
				return err
			}
		}
	}
	if r.client, err = c.client(opts...); err != nil {
		return err
	}
	return r.all(ctx)
}

// groupStart is where a group begins that has nothing committed.
func groupStart(from string) kgo.Offset {
	if from == "latest" {
		return kgo.NewOffset().AtEnd()
	}
	if at, err := time.Parse(time.RFC3339, from); err == nil {
		return kgo.NewOffset().AfterMilli(at.UnixMilli())
	}
	return kgo.NewOffset().AtStart()
}

// ends returns the end of each partition that has something to be read.
func ends(ctx context.Context, c *conn, topic string, from map[int32]kgo.Offset) (map[int32]int64, error) {
	listed, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for p, start := range from {
		if end, ok := listed.Lookup(topic, p); ok && end.Offset > start.EpochOffset().Offset {
			out[p] = end.Offset
		}
	}
	return out, nil
}

// idle is how long a partition that must have more records may yield none: what is left may be an
// empty batch that compaction has kept.
const idle = 10 * time.Second

func (r *reading) all(ctx context.Context) error {
	for r.ends == nil || len(r.ends) > 0 {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if r.ends != nil {
			poll, cancel = context.WithTimeout(ctx, idle)
		}
		fs := r.client.PollFetches(poll)
		late := poll.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil // interrupted
		}
		if late {
			return fmt.Errorf("no records for %s, although the end is not reached: %v", idle, r.ends)
		}
		if err := fs.Err(); err != nil {
			return err
		}
		enough, err := r.print(fs)
		if err != nil {
			return err
		}
		if err := r.w.Flush(); err != nil {
			return err
		}
		r.client.AllowRebalance()
		if enough {
			return nil
		}
	}
	return nil
}

// print prints records and, as a member of a group, commits them.
func (r *reading) print(fs kgo.Fetches) (enough bool, err error) {
	var printed []*kgo.Record
	for it := fs.RecordIter(); !it.Done() && !enough; {
		rec := it.Next()
		if end, ok := r.ends[rec.Partition]; ok && rec.Offset >= end-1 {
			delete(r.ends, rec.Partition)
			if rec.Offset >= end {
				continue
			}
		} else if r.ends != nil && !ok {
			continue // came after the start
		}
		printed = append(printed, rec)
		if rec.Attrs.IsControl() {
			continue
		}
		if err := r.line(rec); err != nil {
			return false, err
		}
		r.count++
		enough = r.o.max > 0 && r.count >= r.o.max
	}
	if r.o.group == "" || len(printed) == 0 {
		return enough, nil
	}
	if err := r.w.Flush(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), idle) // also when it was interrupted
	defer cancel()
	return enough, r.client.CommitRecords(ctx, printed...)
}

func (r *reading) line(rec *kgo.Record) error {
	if r.o.values {
		_, err := r.w.Write(append(rec.Value[:len(rec.Value):len(rec.Value)], '\n'))
		return err
	}
	headers := make([]record.Header, 0, len(rec.Headers))
	for _, h := range rec.Headers {
		headers = append(headers, record.Header{Key: h.Key, Value: h.Value})
	}
	return r.emit(consumedLine{"record", rec.Topic, rec.Partition, rec.Offset, rec.Timestamp.UnixMilli(), rec.Key, rec.Value, headersOf(headers)})
}

type consumedLine struct {
	Type      string   `json:"type"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       data     `json:"key"`
	Value     data     `json:"value"`
	Headers   []header `json:"headers,omitempty"`
}

func (l consumedLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s-%d@%d %s key %s value %s%s\n", l.Topic, l.Partition, l.Offset, timeText(l.Timestamp), l.Key, l.Value, headersText(l.Headers))
}
