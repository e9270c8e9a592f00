package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
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
		Long: "consume prints the records of topics, from the first record to the end at the time it starts. With --follow it waits for more records until\n" +
			"it is interrupted, and reports on standard error when a broker becomes unreachable and when it is back. Partitions are read in parallel:\n" +
			"records are in order within each partition.\n\n" +
			"It is an error if --from is beyond the end of every partition. Otherwise a partition that ends before --from is skipped, and a partition\n" +
			"that begins after --from is read from its first record. Both are reported on standard error.\n\n" +
			"With --group it joins that group, continues at the group's committed offsets, and commits the records it has printed. --from is the start in\n" +
			"partitions without a committed offset.\n\n" +
			"--format is the layout of each record: %t topic, %p partition, %o offset, %k key, %v value, %d timestamp, %e leader epoch, %H number of\n" +
			"headers, %h{%k=%v } headers, \\n \\t \\xNN; other text is printed as it is. It is the layout of franz-go and of rpk's -f.",
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
	f.StringVar(&o.to, "to", "", "where to stop, the first record not to print: an offset, or a time (RFC 3339); empty: the present end")
	f.Int64Var(&o.last, "last", 0, "start this many records before the end of each partition, instead of --from")
	f.StringVar(&o.group, "group", "", "read as a member of this group; needs --follow or --max")
	f.StringVar(&o.isolation, "isolation", "committed", "committed: skip records of aborted and open transactions; uncommitted: all records")
	f.Int64Var(&o.max, "max", 0, "stop after this many records; 0: no limit")
	f.Int32Var(&o.partition, "partition", -1, "only this partition; -1: all")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more records at the end")
	f.BoolVar(&o.values, "values", false, "print only values, one per line")
	f.StringVar(&o.format, "format", "", "layout of each record, explained by strata consume --help")
	c.MarkFlagsMutuallyExclusive("from", "last")
	return c
}

// check rejects options that exclude each other or are out of range.
func (o *consumeOptions) check(json bool) error {
	switch {
	case o.group != "" && (o.partition >= 0 || !o.follow && o.max == 0):
		return misuse("--group needs --follow or --max, and cannot be used with --partition")
	case o.group != "" && (o.to != "" || o.last != 0):
		return misuse("--group cannot be used with --to or --last")
	case o.to != "" && o.follow:
		return misuse("--to and --follow exclude each other")
	case o.values && json, o.format != "" && json:
		return misuse("--json cannot be used with --values or --format, which print bytes")
	case o.values && o.format != "":
		return misuse("--values and --format exclude each other")
	case o.partition < -1:
		return misuse("--partition %d: must be at least 0, or -1 for all", o.partition)
	case o.last < 0 || o.max < 0:
		return misuse("--last and --max must be at least 0")
	case o.isolation != "committed" && o.isolation != "uncommitted":
		return misuse("--isolation %s: must be committed or uncommitted", o.isolation)
	}
	return nil
}

// A reading is one run of the command.
type reading struct {
	*app
	o      consumeOptions
	client *kgo.Client
	format *kgo.RecordFormatter
	visit  func(*kgo.Record) // gets each record; nil: it is printed

	timeout time.Duration         // how long to wait for a record before the end is reached
	passing map[partitionOf]error // the last retriable error of each partition, as LEADER_NOT_AVAILABLE
	ends    map[partitionOf]int64 // end offsets not reached yet; nil: no end
	count   int64
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
	r := &reading{app: a, o: o, timeout: tg.timeout}
	if o.format != "" {
		var err error
		if r.format, err = kgo.NewRecordFormatter(o.format); err != nil {
			return misuse("--format: %v", err)
		}
	}
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond), kgo.KeepRetryableFetchErrors()}
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
	if o.last > 0 {
		if err := a.startAtLast(ctx, c, tg, opts, where, o); err != nil {
			return err
		}
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

// say prints a message on standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.err, "strata: %s\n", printableLines(fmt.Sprintf(format, args...)))
}

func (r *reading) all(ctx context.Context) error {
	r.passing = map[partitionOf]error{}
	for last := time.Now(); r.ends == nil || len(r.ends) > 0; {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if !r.o.follow {
			poll, cancel = context.WithDeadline(ctx, last.Add(r.timeout))
		}
		fs := r.client.PollFetches(poll)
		late := poll.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil // interrupted
		}
		if late {
			if err := r.unanswered(ctx); err != nil {
				return err
			}
			last = time.Now()
			continue
		}
		if err := r.failed(fs); err != nil {
			return err
		}
		if fs.NumRecords() > 0 {
			last = time.Now()
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

// unanswered returns the reason why no records arrived within the timeout. A member of a group has
// no end to reach: it gets nil, and continues to wait, while a broker answers.
func (r *reading) unanswered(ctx context.Context) error {
	if len(r.passing) > 0 {
		err := fmt.Errorf("no records for %s", r.timeout)
		for _, at := range slices.SortedFunc(maps.Keys(r.passing), func(a, b partitionOf) int { return cmp.Compare(a.String(), b.String()) }) {
			err = fmt.Errorf("%w; %s: %w", err, at, r.passing[at])
		}
		return err
	}
	if r.ends != nil {
		return fmt.Errorf("no records for %s before the end was reached: %v", r.timeout, r.ends)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.client.Ping(ctx); err != nil {
		return fmt.Errorf("no records for %s: %w", r.timeout, err)
	}
	return nil
}

// failed returns the first error of a poll that is not retriable, with its partition. Retriable
// errors are kept in r.passing: the client tries again, and unanswered returns them after the
// timeout. With --follow each is reported once on standard error.
func (r *reading) failed(fs kgo.Fetches) error {
	for _, f := range fs {
		for _, t := range f.Topics {
			for _, p := range t.Partitions {
				at := partitionOf{t.Topic, p.Partition}
				if !kerr.IsRetriable(p.Err) {
					delete(r.passing, at)
					continue
				}
				if r.o.follow && !errors.Is(r.passing[at], p.Err) {
					r.say("%s: %v; trying again", at, p.Err)
				}
				r.passing[at] = p.Err
			}
		}
	}
	return failed(fs)
}

// failed returns the first error of a poll that is not retriable, with its partition.
func failed(fs kgo.Fetches) (err error) {
	fs.EachError(func(topic string, p int32, ferr error) {
		switch {
		case err != nil, kerr.IsRetriable(ferr):
		case errors.Is(ferr, kerr.OffsetOutOfRange):
			err = fmt.Errorf("%s-%d: the next offset no longer exists: %w", topic, p, ferr)
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
			continue // written after the command started
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
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout) // commits also after an interrupt
	defer cancel()
	return enough, r.client.CommitRecords(ctx, printed...)
}

func (r *reading) line(rec *kgo.Record) error {
	if r.visit != nil {
		r.visit(rec)
		return nil
	}
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
