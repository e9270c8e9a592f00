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
		Long: "produce writes each VALUE as a record, or each line of standard input if there is none. Records are acknowledged by all replicas and\n" +
			"written exactly once (idempotent producer). It prints where each went.\n\n" +
			"With --input json a line is an object with key, value (strings, null, or {\"base64\": ...}), headers, partition and timestamp (ms),\n" +
			"as `strata consume --json` prints them. A line without a value, or with another field, is refused; null is a tombstone.",
		Example: "  strata produce orders hello world -b localhost:9092\n" +
			"  printf 'k1:v1\\nk2:v2\\n' | strata produce orders --key-separator : --dir data\n" +
			"  strata consume orders -b a:9092 --json | strata produce copy -b b:9092 --input json --ignore-partitions",
	}
	c.RunE = a.with(&tg, func(ctx context.Context, c *conn, args []string) error { return a.produce(ctx, c, o, args) })
	c.PreRun = func(c *cobra.Command, _ []string) { o.hasKey = c.Flags().Changed("key") }
	tg.flags(c)
	f := c.Flags()
	f.StringVar(&o.key, "key", "", "key of every record")
	f.StringVar(&o.separator, "key-separator", "", "what a line's key ends with; a line without it has no key")
	f.StringVar(&o.input, "input", "lines", "what is read: lines or json")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.StringArrayVar(&o.headers, "header", nil, "a header of every record, name=value; may be repeated")
	f.Int32Var(&o.partition, "partition", -1, "partition to write to; -1: by key, or any")
	f.BoolVar(&o.ignorePartitions, "ignore-partitions", false, "with --input json: by key, or any, whatever partition a line names")
	return c
}

func (a *app) produce(ctx context.Context, c *conn, o produceOptions, args []string) error {
	codec, err := codecOf(o.compression)
	if err != nil {
		return err
	}
	if o.input != "lines" && o.input != "json" {
		return misuse("--input %s: it is lines or json", o.input)
	}
	if o.partition < -1 {
		return misuse("--partition %d: it is -1, for any, or more", o.partition)
	}
	var headers []kgo.RecordHeader
	for _, h := range o.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			return misuse("--header %s: it is name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	client, err := c.newClient(kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec), kgo.UnknownTopicRetries(5),
		kgo.RecordPartitioner(chosen(kgo.StickyKeyPartitioner(nil))))
	if err != nil {
		return err
	}
	p := &producing{app: a, client: client, o: o, topic: args[0], headers: headers}
	var in io.Reader = strings.NewReader(strings.Join(args[1:], "\n"))
	if len(args) == 1 {
		in = a.in
	}
	err = p.all(ctx, in)
	if ferr := client.Flush(ctx); ferr != nil {
		err = errors.Join(err, ferr)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.err)
}

func codecOf(name string) (kgo.CompressionCodec, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	c, ok := codecs[name]
	if !ok {
		return c, misuse("--compression %s: it is none, gzip, snappy, lz4 or zstd", name)
	}
	return c, nil
}

// chosen is a partitioner that takes a record's partition if it is not negative.
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

	mu      sync.Mutex // guards the output and the fields below: promises are kept by another goroutine
	pending int        // records that are not acknowledged
	err     error      // the first
}

// maxLine bounds a line of input.
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
		p.pending++
		p.mu.Unlock()
		p.client.Produce(ctx, r, func(r *kgo.Record, err error) { p.done(n, r, err) })
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// done is told what became of line n. What was written is shown once nothing is under way, so that
// whoever feeds a pipe sees it before the next line.
func (p *producing) done(n int, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
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

// record makes a record of a line.
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
		Type, Topic json.RawMessage // as they are printed; they do not count, nor does the offset
		Offset      json.RawMessage
		Key         data
		Value       given
		Headers     []header
		Partition   *int32
		Timestamp   *int64
	}
	if !utf8.Valid(line) {
		return errors.New("it is not in UTF-8: bytes that are no text are {\"base64\": ...}")
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	if err := in.Decode(&v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // it says so in types of Go
			return fmt.Errorf("%s: a line is an object, with numbers for partition and timestamp, and a list of headers", wrong.Value)
		}
		return err
	}
	if err := exactJSON(line); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the object")
	}
	if !v.Value.set {
		return errors.New(`there is no value: "value": null is a tombstone`)
	}
	r.Key, r.Value = v.Key, v.Value.data
	if v.Partition != nil && r.Partition < 0 && !ignorePartition {
		if r.Partition = *v.Partition; r.Partition < -1 {
			return fmt.Errorf("partition %d: it is -1, for any, or more", r.Partition)
		}
	}
	if v.Timestamp != nil && *v.Timestamp != -1 { // which is how a record without a time is printed
		if *v.Timestamp < 0 || *v.Timestamp > mostTimestamp {
			return fmt.Errorf("timestamp %d: it is from 0 to %d, in ms", *v.Timestamp, int64(mostTimestamp))
		}
		r.Timestamp = time.UnixMilli(*v.Timestamp)
	}
	for _, h := range v.Headers {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return nil
}

// mostTimestamp is the largest time of a record that the client writes as it is: it counts in
// nanoseconds.
const mostTimestamp = math.MaxInt64 / int64(time.Millisecond)

// given is data that says whether it was there.
type given struct {
	data
	set bool
}

// UnmarshalJSON is that of data; it is called for null, too.
func (g *given) UnmarshalJSON(p []byte) error {
	g.set = true
	return g.data.UnmarshalJSON(p)
}

// UnmarshalJSON reads what MarshalJSON writes.
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
		return fmt.Errorf("%s is no string, null or {\"base64\": ...}", p)
	}
	b, err := base64.StdEncoding.DecodeString(*v.Base64)
	*d = b
	return err
}
