package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/record"
)

type consumeOptions struct {
	from, to, group, isolation string
	format                     string
	max, last                  int64
	partition                  int32
	follow, values             bool
}

func (a *app) consumeCmd() *cobra.Command {
	var tg target
	var o consumeOptions
	c := &cobra.Command{
		Use: "consume TOPIC...", Short: "Read records", Args: cobra.MinimumNArgs(1),
		Long: "consume prints the records of topics, from the first one to those that are there when it starts; with --follow it waits for more, until\n" +
			"it is interrupted, and says on standard error when a broker goes and comes. Partitions are read side by side: records are in order within each.\n\n" +
			"An offset that no partition has is an error. A partition that ends before it is passed over, and one that begins behind it is read from\n" +
			"its first record; both are told on standard error.\n\n" +
			"With --group it is a member of that group, reads on where the group is, and commits what it has printed. --from is where it begins in\n" +
			"partitions that the group has committed nothing of.\n\n" +
			"--format prints each record as a layout says: %t topic, %p partition, %o offset, %k key, %v value, %d timestamp, %e leader epoch,\n" +
			"%H number of headers, %h{%k=%v } headers, \\n \\t \\xNN; the rest stands for itself. It is franz-go's layout, as rpk's -f has it.",
		Example: "  strata consume orders -b localhost:9092\n" +
			"  strata consume orders --from 2026-01-31T12:00:00Z --to 2026-01-31T13:00:00Z --dir data --json\n" +
			"  strata consume orders payments --follow --from latest --format '%t/%p@%o %k=%v\\n' -b localhost:9092\n" +
			"  strata consume orders --last 10 --values -b localhost:9092\n" +
			"  strata consume orders --group billing --max 100 -b localhost:9092",
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return a.consume(ctx, c, &tg, o, args)
	})
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&o.from, "from", "earliest", "where to start: earliest, latest, an offset, or a time (RFC 3339)")
	f.StringVar(&o.to, "to", "", "where to stop, the first record not to print: an offset, or a time; empty: what is the end now")
	f.Int64Var(&o.last, "last", 0, "start so many offsets before the end of each partition, in place of --from")
	f.StringVar(&o.group, "group", "", "read as a member of this group; needs --follow or --max")
	f.StringVar(&o.isolation, "isolation", "committed", "committed: no records of aborted or open transactions; uncommitted: all")
	f.Int64Var(&o.max, "max", 0, "stop after so many records; 0: no limit")
	f.Int32Var(&o.partition, "partition", -1, "only this partition; -1: all")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more records at the end")
	f.BoolVar(&o.values, "values", false, "print values only, a line each")
	f.StringVar(&o.format, "format", "", "print each record by this layout")
	c.MarkFlagsMutuallyExclusive("from", "last")
	return c
}

// check refuses options that do not go together.
func (o *consumeOptions) check(json bool) error {
	switch {
	case o.group != "" && (o.partition >= 0 || !o.follow && o.max == 0):
		return misuse("--group needs --follow or --max, and takes no --partition")
	case o.group != "" && (o.to != "" || o.last != 0):
		return misuse("--group takes no --to and no --last")
	case o.to != "" && o.follow:
		return misuse("--to and --follow: it is one or the other")
	case o.values && json, o.format != "" && json:
		return misuse("--values and --format print bytes, not JSON")
	case o.values && o.format != "":
		return misuse("--values and --format: it is one or the other")
	case o.partition < -1:
		return misuse("--partition %d: it is -1, for all, or more", o.partition)
	case o.last < 0 || o.max < 0:
		return misuse("--last and --max are at least 0")
	case o.isolation != "committed" && o.isolation != "uncommitted":
		return misuse("--isolation %s: it is committed or uncommitted", o.isolation)
	}
	return nil
}

// A reading is one run of the command.
type reading struct {
	*app
	o      consumeOptions
	client *kgo.Client
	format *kgo.RecordFormatter
	ends   map[partitionOf]int64 // not reached yet; nil: there is no end
	count  int64
}

// partitionOf names a partition.
type partitionOf struct {
	topic     string
	partition int32
}

func (p partitionOf) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

func (a *app) consume(ctx context.Context, c *conn, tg *target, o consumeOptions, topics []string) error {
	if err := o.check(a.json); err != nil {
		return err
	}
	r := &reading{app: a, o: o}
	if o.format != "" {
		var err error
		if r.format, err = kgo.NewRecordFormatter(o.format); err != nil {
			return misuse("--format: %v", err)
		}
	}
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond)}
	if o.isolation == "committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if o.follow {
		opts = append(opts, kgo.WithHooks(&comings{say: a.say}))
	}
	bounded, cancel := tg.bounded(ctx)
	defer cancel()
	where, err := locate(bounded, c.admin, o, topics)
	if err != nil {
		return err
	}
	if o.group == "" {
		if err := where.clamp(o, a.say); err != nil {
			return err
		}
		if !o.follow {
			r.ends = where.left()
		}
		opts = append(opts, kgo.ConsumePartitions(where.offsets()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	} else {
		opts = append(opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
			kgo.ConsumeResetOffset(groupStart(o.from)))
	}
	if r.client, err = c.newClient(opts...); err != nil {
		return err
	}
	return r.all(ctx)
}

// say tells something on standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.err, "strata: "+format+"\n", args...)
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
		if err := failed(fs); err != nil {
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

// failed returns the first error of a poll, with the partition that it is of.
func failed(fs kgo.Fetches) (err error) {
	fs.EachError(func(topic string, p int32, ferr error) {
		switch {
		case err != nil:
		case errors.Is(ferr, kerr.OffsetOutOfRange):
			err = fmt.Errorf("%s-%d: the offset to read next is not there any more: %w", topic, p, ferr)
		case topic != "" && p >= 0:
			err = fmt.Errorf("%s-%d: %w", topic, p, ferr)
		default:
			err = ferr
		}
	})
	return err
}

// print prints records and, as a member of a group, commits them.
func (r *reading) print(fs kgo.Fetches) (enough bool, err error) {
	var printed []*kgo.Record
	for it := fs.RecordIter(); !it.Done() && !enough; {
		rec := it.Next()
		at := partitionOf{rec.Topic, rec.Partition}
		if end, ok := r.ends[at]; ok && rec.Offset >= end-1 {
			delete(r.ends, at)
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
	if r.format != nil {
		_, err := r.w.Write(r.format.AppendRecord(nil, rec))
		return err
	}
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
