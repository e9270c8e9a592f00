package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

type produceOptions struct {
	key, separator, input, compression string
	headers                            []string
	partition                          int32
	hasKey, ignorePartitions           bool
}

func (a *app) produceCmd() *cobra.Command {
	var tg target
	o := produceOptions{}
	c := &cobra.Command{
		Use: "produce TOPIC [VALUE...]", Short: "Write records", Args: cobra.MinimumNArgs(1),
		Long: "produce writes each VALUE as a record, or each line of standard input if there is no VALUE. Records are acknowledged by all in-sync replicas\n" +
			"and written exactly once (idempotent producer). It prints the partition and offset of each record. It fails if records are pending and none\n" +
			"is acknowledged for --timeout.\n\n" +
			"With --input json a line is an object with key, value (strings, null, or {\"base64\": ...}), headers, partition and timestamp (ms), as\n" +
			"printed by `strata consume --json`. A line without a value, or with another field, is an error. A null value is a tombstone.",
		Example: "  strata produce orders hello world -b localhost:9092\n" +
			"  printf 'k1:v1\\nk2:v2\\n' | strata produce orders --key-separator : --dir data\n" +
			"  strata consume orders -b a:9092 --json | strata produce copy -b b:9092 --input json --ignore-partitions",
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error { return a.produce(ctx, c, &tg, o, args) })
	c.PreRun = func(c *cobra.Command, _ []string) { o.hasKey = c.Flags().Changed("key") }
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&o.key, "key", "", "key of every record")
	f.StringVar(&o.separator, "key-separator", "", "text between key and value in a line; a line without it has no key")
	f.StringVar(&o.input, "input", "lines", "input format: lines or json")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.StringArrayVar(&o.headers, "header", nil, "a header of every record, name=value; may be repeated")
	f.Int32Var(&o.partition, "partition", -1, "partition to write to; -1: by key, or any for records without a key")
	f.BoolVar(&o.ignorePartitions, "ignore-partitions", false, "with --input json: ignore the partition of each line, and choose it as for --partition -1")
	return c
}

func (a *app) produce(ctx context.Context, c *conn, tg *target, o produceOptions, args []string) error {
	codec, err := codecOf(o.compression)
	if err != nil {
		return err
	}
	if o.input != "lines" && o.input != "json" {
		return misuse("--input %s: must be lines or json", o.input)
	}
	if o.partition < -1 {
		return misuse("--partition %d: must be at least 0, or -1 for any", o.partition)
	}
	var headers []kgo.RecordHeader
	for _, h := range o.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			return misuse("--header %s: must be name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	client, err := c.newClient(kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec), kgo.UnknownTopicRetries(5),
		kgo.RecordPartitioner(chosen(kgo.StickyKeyPartitioner(nil))))
	if err != nil {
		return err
	}
	p := &producing{app: a, client: client, o: o, topic: args[0], headers: headers, timeout: tg.timeout}
	var in io.Reader = strings.NewReader(strings.Join(args[1:], "\n"))
	if len(args) == 1 {
		in = a.in
	}
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	p.overdue = time.AfterFunc(tg.timeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.late = p.pending; p.late > 0 {
			cancel()
		}
	})
	defer p.overdue.Stop()
	ended := make(chan error, 1)
	go func() { ended <- p.all(writing, in) }()
	select {
	case err = <-ended:
		if ferr := client.Flush(writing); ferr != nil {
			err = errors.Join(err, ferr)
		}
	case <-writing.Done(): // the read of in may block for long
	}
	p.mu.Lock()
	late := p.late
	err = errors.Join(err, p.err)
	p.mu.Unlock()
	if late > 0 {
		return c.notAcknowledged(ctx, tg, p.topic, late)
	}
	return err
}

// notAcknowledged returns the error for records that were not acknowledged in time. If the brokers
// still answer, it includes the errors of partitions, as of one without a leader.
func (c *conn) notAcknowledged(ctx context.Context, tg *target, topic string, records int) error {
	ctx, cancel := context.WithTimeout(ctx, min(tg.timeout, time.Second))
	defer cancel()
	why := ""
	if listed, err := c.admin.ListTopics(ctx, topic); err == nil {
		for _, p := range listed[topic].Partitions.Sorted() {
			if p.Err != nil {
				why += fmt.Sprintf("; %s-%d: %v", topic, p.Partition, p.Err)
			}
		}
	}
	return fmt.Errorf("%s: %d records were not acknowledged within %s, and may or may not have been written%s", topic, records, tg.timeout, why)
}

func codecOf(name string) (kgo.CompressionCodec, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	c, ok := codecs[name]
	if !ok {
		return c, misuse("--compression %s: must be none, gzip, snappy, lz4 or zstd", name)
	}
	return c, nil
}

// chosen returns a partitioner that uses a record's partition if it is not negative, else other.
func chosen(other kgo.Partitioner) kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		p := other.ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			if r.Partition >= 0 {
				return int(r.Partition)
			}
			return p.Partition(r, n)
		}
	})
}

// producing is one run of the command.
type producing struct {
	*app
	client  *kgo.Client
	o       produceOptions
	topic   string
	headers []kgo.RecordHeader
	timeout time.Duration
	overdue *time.Timer // fires a timeout after the last acknowledgement while records are pending

	mu      sync.Mutex // guards the output and the fields below: promises run on another goroutine
	pending int        // records not acknowledged yet
	late    int        // records pending when overdue fired; later acknowledgements are ignored
	err     error      // the first
}

// maxLine bounds a line of input, in bytes.
const maxLine = 16 << 20

func (p *producing) all(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		r, err := p.record(bytes.Clone(lines.Bytes()))
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		p.mu.Lock()
		if p.pending++; p.pending == 1 {
			p.overdue.Reset(p.timeout)
		}
		p.mu.Unlock()
		p.client.Produce(ctx, r, func(r *kgo.Record, err error) { p.done(n, r, err) })
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// done handles the result of line n. It flushes the output when no record is pending, so that a
// process at the other end of a pipe sees the result before it sends the next line.
func (p *producing) done(n int, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late > 0 {
		return
	}
	if p.pending--; p.pending > 0 {
		p.overdue.Reset(p.timeout)
	}
	if err == nil {
		err = p.emit(wroteLine{"produced", r.Topic, r.Partition, r.Offset})
	} else {
		err = fmt.Errorf("%s, line %d: %w", r.Topic, n, err)
	}
	if err == nil && p.pending == 0 {
		err = p.w.Flush()
	}
	if p.err == nil {
		p.err = err
	}
}

type wroteLine struct {
	Type      string `json:"type"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (l wroteLine) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s-%d@%d\n", l.Topic, l.Partition, l.Offset)
}

// record returns the record of a line.
func (p *producing) record(line []byte) (*kgo.Record, error) {
	r := &kgo.Record{Topic: p.topic, Partition: p.o.partition, Value: line, Headers: p.headers}
	if p.o.input == "json" {
		return r, fromJSON(r, line, p.o.ignorePartitions)
	}
	if p.o.hasKey {
		r.Key = []byte(p.o.key)
	}
	if p.o.separator != "" {
		if k, v, ok := bytes.Cut(line, []byte(p.o.separator)); ok {
			r.Key, r.Value = k, v
		}
	}
	return r, nil
}

// fromJSON fills in r from a JSON object.
func fromJSON(r *kgo.Record, line []byte, ignorePartition bool) error {
	var v struct {
		Type, Topic json.RawMessage // printed by consume; ignored, as is Offset
		Offset      json.RawMessage
		Key         data
		Value       given
		Headers     []header
		Partition   *int32
		Timestamp   *int64
	}
	if !utf8.Valid(line) {
		return errors.New("not UTF-8: write bytes that are not text as {\"base64\": ...}")
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text names Go types
			return fmt.Errorf("unexpected %s: a line must be an object, with numbers for partition and timestamp, and a list of headers", wrong.Value)
		}
		return err
	}
	if err := exactJSON(line); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected text after the object")
	}
	if !v.Value.set {
		return errors.New(`no value: write "value": null for a tombstone`)
	}
	r.Key, r.Value = v.Key, v.Value.data
	if v.Partition != nil && r.Partition < 0 && !ignorePartition {
		if r.Partition = *v.Partition; r.Partition < -1 {
			return fmt.Errorf("partition %d: must be at least 0, or -1 for any", r.Partition)
		}
	}
	if v.Timestamp != nil && *v.Timestamp != -1 { // -1 is printed for a record without a timestamp
		if *v.Timestamp < 0 || *v.Timestamp > mostTimestamp {
			return fmt.Errorf("timestamp %d: must be 0 to %d, in ms", *v.Timestamp, int64(mostTimestamp))
		}
		r.Timestamp = time.UnixMilli(*v.Timestamp)
	}
	for _, h := range v.Headers {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return nil
}

// mostTimestamp is the largest timestamp, in ms, that the client writes without overflow: it counts
// in nanoseconds.
const mostTimestamp = math.MaxInt64 / int64(time.Millisecond)

// given is data with a flag that is set if the field is present, even as null.
type given struct {
	data
	set bool
}

// UnmarshalJSON sets the flag and reads data. encoding/json calls it for null too.
func (g *given) UnmarshalJSON(p []byte) error {
	g.set = true
	return g.data.UnmarshalJSON(p)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (d *data) UnmarshalJSON(p []byte) error {
	var s *string
	if json.Unmarshal(p, &s) == nil {
		if *d = nil; s != nil {
			*d = data(*s)
			if *d == nil {
				*d = data{}
			}
		}
		return nil
	}
	var v struct {
		Base64 *string `json:"base64"`
	}
	in := json.NewDecoder(bytes.NewReader(p))
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil || v.Base64 == nil {
		return fmt.Errorf("%s is not a string, null or {\"base64\": ...}", p)
	}
	b, err := base64.StdEncoding.DecodeString(*v.Base64)
	*d = b
	return err
}
