package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// Sizes of W18.
const (
	clientPartitions = 6
	roundTrip        = 10 * time.Millisecond // of the cases over a slow network
	roundTripRecords = 500                   // sent one at a time
	transformRecords = 100_000
	clientBuffer     = 32 << 20 // memory for records that are not sent
)

// A netClient is a client library for brokers of Kafka's protocol. Each method but Close is called
// at most once.
type netClient interface {
	Open(j Job, dial dialer) error
	Produce(n int64, next func() [][]byte) error // to j.Topic; returns when all are acknowledged
	ProduceEach(n int, value []byte) ([]int64, error)
	Consume(n int64, each func()) error
	Transform(n int64) error // from j.Topic to j.Topic + "-out", in transactions
	Close()
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func init() {
	register(entry{name: "remote", client: func() netClient { return &strataClient{} }, note: "producer, consumer over package remote"})
	register(entry{name: "franz-go", client: func() netClient { return &franzClient{} }, note: "kgo"})
	workloads["W18"] = measureClients
	ops["client"] = opClient
	ops["serve"] = opServe
}

// measureClients compares clients of one broker: the one of -broker, else a Strata that keeps its
// records in memory, in a process of its own.
func measureClients(c *config, sel []entry) {
	sel = family(sel, func(e entry) bool { return e.client != nil })
	addr, stop := c.broker, func() {}
	if addr == "" {
		addr, stop = startServing()
	}
	defer stop()
	admin, err := remote.Open(bg, remote.Config{Brokers: []string{addr}})
	must(err)
	defer admin.Close()
	cases := []Job{
		{Op: "produce", Size: 100}, {Op: "produce", Size: 1024}, {Op: "produce", Size: 100, Delay: roundTrip}, {Op: "produce", Size: 1024, Delay: roundTrip},
		{Op: "consume", Size: 100}, {Op: "consume", Size: 1024}, {Op: "consume", Size: 100, Delay: roundTrip}, {Op: "consume", Size: 1024, Delay: roundTrip},
		{Op: "consume", Size: 100, Delay: roundTrip, Work: 2 * time.Microsecond},
		{Op: "each", Size: 100}, {Op: "transform", Size: 100},
	}
	for _, j := range cases {
		name := fmt.Sprintf("%s %dB", j.Op, j.Size)
		if j.Delay > 0 {
			name += fmt.Sprint(" at ", j.Delay)
		}
		if j.Work > 0 {
			name += fmt.Sprint(", ", j.Work, " of work")
		}
		c.measure("W18", name, sel, func(e entry, dir string) Result {
			j := j
			j.Subject, j.What, j.Op = e.name, j.Op, "client"
			j.Addr, j.Topic, j.Bytes = addr, fmt.Sprintf("bench-%d", time.Now().UnixNano()), min(c.bytes, 256<<20)
			if j.What == "transform" {
				j.Bytes = transformRecords * int64(j.Size)
				must(admin.CreateTopic(bg, j.Topic+"-out", topic.Config{Partitions: clientPartitions}))
				defer func() { must(admin.DeleteTopic(bg, j.Topic+"-out")) }()
			}
			must(admin.CreateTopic(bg, j.Topic, topic.Config{Partitions: clientPartitions}))
			defer func() { must(admin.DeleteTopic(bg, j.Topic)) }()
			if j.What == "consume" || j.What == "transform" { // the same batches for both
				fill := j
				fill.Subject, fill.What, fill.Delay = "franz-go", "produce", 0
				if r := spawn(fill); r.Err != "" {
					return r
				}
			}
			return spawn(j)
		})
	}
}

// startServing starts a broker in a child process.
func startServing() (addr string, stop func()) {
	cmd := exec.Command("/proc/self/exe", "-child", `{"Op":"serve"}`)
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	addr, err = bufio.NewReader(out).ReadString('\n')
	must(err)
	return strings.TrimSpace(addr), func() {
		must(in.Close())
		must(cmd.Wait())
	}
}

// opServe serves a cluster in memory until its input ends.
func opServe(Job) (Result, error) {
	b := &strataWire{memory: true}
	addrs, err := b.Start("")
	if err != nil {
		return Result{}, err
	}
	fmt.Println(addrs[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	b.Stop()
	return Result{}, err
}

func opClient(j Job) (Result, error) {
	dial := (&net.Dialer{}).DialContext
	if j.Delay > 0 {
		dial = delayed(j.Delay)
	}
	cl := lookup(j.Subject).client()
	if err := cl.Open(j, dial); err != nil {
		return Result{}, err
	}
	defer cl.Close()
	next, n := payloads(j.Size, 1), j.Bytes/int64(j.Size)
	switch j.What {
	case "produce":
		m := startMeter()
		err := cl.Produce(n, next)
		return m.stop(n, n*int64(j.Size)), err
	case "each":
		m := startMeter()
		took, err := cl.ProduceEach(roundTripRecords, next()[0])
		r := m.stop(roundTripRecords, roundTripRecords*int64(j.Size))
		r.P50, r.P99, r.P999 = percentiles(took)
		return r, err
	case "consume":
		m := startMeter()
		err := cl.Consume(n, func() { work(j.Work) })
		return m.stop(n, n*int64(j.Size)), err
	case "transform":
		m := startMeter()
		err := cl.Transform(n)
		return m.stop(n, n*int64(j.Size)), err
	}
	return Result{}, errors.New("unknown operation of a client")
}

// work keeps the processor busy.
func work(d time.Duration) {
	if d > 0 {
		for began := time.Now(); time.Since(began) < d; {
		}
	}
}

type strataClient struct {
	job Job
	c   *remote.Cluster
}

func (s *strataClient) Open(j Job, dial dialer) (err error) {
	s.job = j
	s.c, err = remote.Open(bg, remote.Config{Brokers: []string{j.Addr}, Dial: dial})
	return err
}

func (s *strataClient) Close() { s.c.Close() }

func (s *strataClient) Produce(n int64, next func() [][]byte) error {
	p, err := producer.New(s.c, producer.Config{MaxBufferedBytes: clientBuffer})
	if err != nil {
		return err
	}
	var failed atomic.Int64
	done := func(_ record.Record, err error) {
		if err != nil {
			failed.Add(1)
		}
	}
	for range n {
		p.SendAsync(bg, record.Record{Topic: s.job.Topic, Value: next()[0]}, done)
	}
	return errors.Join(p.Flush(bg), p.Close(), failures(failed.Load()))
}

func failures(n int64) error {
	if n > 0 {
		return fmt.Errorf("%d records failed", n)
	}
	return nil
}

func (s *strataClient) ProduceEach(n int, value []byte) (took []int64, err error) {
	p, err := producer.New(s.c, producer.Config{})
	if err != nil {
		return nil, err
	}
	for range n {
		began := time.Now()
		if _, err := p.Send(bg, record.Record{Topic: s.job.Topic, Value: value}); err != nil {
			return took, err
		}
		took = append(took, int64(time.Since(began)))
	}
	return took, p.Close()
}

func (s *strataClient) Consume(n int64, each func()) error {
	c, err := consumer.New(s.c, consumer.Config{Topics: []string{s.job.Topic}, Reset: consumer.Earliest()})
	if err != nil {
		return err
	}
	for b, err := range c.Batches(bg) {
		if err != nil {
			return err
		}
		for range b.All() {
			each()
			n--
		}
		if n <= 0 {
			break
		}
	}
	return c.Close()
}

func (s *strataClient) Transform(n int64) error {
	c, err := consumer.New(s.c, consumer.Config{Group: s.job.Topic, Topics: []string{s.job.Topic}})
	if err != nil {
		return err
	}
	p, err := producer.New(s.c, producer.Config{TransactionalID: s.job.Topic})
	if err != nil {
		return err
	}
	err = consumer.Transform(bg, c, p, func(r record.Record, emit func(record.Record)) error {
		emit(record.Record{Topic: s.job.Topic + "-out", Key: r.Key, Value: r.Value})
		if n--; n == 0 {
			c.Wakeup()
		}
		return nil
	})
	return errors.Join(err, c.Close(), p.Close())
}

type franzClient struct {
	job  Job
	opts []kgo.Opt
}

func (f *franzClient) Open(j Job, dial dialer) error {
	f.job = j
	f.opts = []kgo.Opt{kgo.SeedBrokers(j.Addr), kgo.Dialer(dial), kgo.DefaultProduceTopic(j.Topic), kgo.ProducerBatchCompression(kgo.NoCompression())}
	return nil
}

func (f *franzClient) Close() {}

func (f *franzClient) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(more, f.opts...)...)
}

func (f *franzClient) Produce(n int64, next func() [][]byte) error {
	cl, err := f.client(kgo.MaxBufferedBytes(clientBuffer), kgo.MaxBufferedRecords(clientBuffer))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Int64
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Add(1)
		}
	}
	for range n {
		cl.Produce(bg, &kgo.Record{Value: next()[0]}, done)
	}
	return errors.Join(cl.Flush(bg), failures(failed.Load()))
}

func (f *franzClient) ProduceEach(n int, value []byte) (took []int64, err error) {
	cl, err := f.client(kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for range n {
		began := time.Now()
		if err := cl.ProduceSync(bg, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return took, err
		}
		took = append(took, int64(time.Since(began)))
	}
	return took, nil
}

func (f *franzClient) Consume(n int64, each func()) error {
	cl, err := f.client(kgo.ConsumeTopics(f.job.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for n > 0 {
		fetches := cl.PollFetches(bg)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(*kgo.Record) {
			each()
			n--
		})
	}
	return nil
}

func (f *franzClient) Transform(n int64) error {
	s, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.TransactionalID(f.job.Topic), kgo.ConsumerGroup(f.job.Topic), kgo.ConsumeTopics(f.job.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}, f.opts...)...)
	if err != nil {
		return err
	}
	defer s.Close()
	for n > 0 {
		fetches := s.PollFetches(bg)
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := s.Begin(); err != nil {
			return err
		}
		var failed atomic.Int64
		left := n
		fetches.EachRecord(func(r *kgo.Record) {
			s.Produce(bg, &kgo.Record{Topic: f.job.Topic + "-out", Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				}
			})
			left--
		})
		committed, err := s.End(bg, kgo.TryCommit)
		if err := errors.Join(err, failures(failed.Load())); err != nil {
			return err
		}
		if committed {
			n = left
		}
	}
	return nil
}
