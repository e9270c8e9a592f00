// Command workers sends mails with a pool of workers behind one consumer, as a service would run:
// records are done in any order but that of their user, offsets are committed without gaps, what
// fails is tried again at once, later, or never, and every mail that could not be sent lies in a
// dead letter topic with the reason. SIGTERM or Ctrl-C ends it without losing a mail; it tells
// which ones the next process repeats, and why.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	total = 400
	users = 50
)

func main() {
	// The shutdown recipe, part 1: SIGTERM ends the context, and nothing else.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, name := range []string{"mails", "mails-retry", "mails-failed"} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range total {
		if _, err := p.Send(ctx, record.String("mails", fmt.Sprintf("user-%d", i%users), fmt.Sprint(i))); err != nil {
			return err
		}
	}

	m := &mailer{cluster: cluster, p: p, sent: map[string]int{}}
	fmt.Fprintln(w, "the first process is told to stop in the middle:")
	half, stop := context.WithCancel(ctx)
	defer stop()
	m.each = func(n int64) {
		if n == total/2 {
			stop() // as SIGTERM would
		}
	}
	if err := m.process(half, w); err != nil {
		return err
	}
	fmt.Fprintln(w, "the second one does the rest:")
	if ctx.Err() != nil {
		return nil
	}
	rest, stop := context.WithTimeout(ctx, 30*time.Second) // more than it needs
	defer stop()
	m.each = nil
	m.all = stop
	if err := m.process(rest, w); err != nil {
		return err
	}
	if err := m.report(ctx, w); err != nil {
		return err
	}
	return m.verdict(w)
}

// A mailer is the application: what it has sent, and how.
type mailer struct {
	cluster *strata.Cluster
	p       *producer.Producer
	each    func(n int64) // called after each mail
	all     func()        // called when no mail is left

	busy, most, n atomic.Int64

	mu     sync.Mutex // guards the fields below
	sent   map[string]int
	failed int
}

// process is one process of the mail service, from its start to its clean end.
func (m *mailer) process(ctx context.Context, w io.Writer) (err error) {
	start, before := time.Now(), m.n.Load()
	c, err := consumer.New(m.cluster, consumer.Config{Group: "mailers", Topics: []string{"mails", "mails-retry"}})
	if err != nil {
		return err
	}
	err = c.Run(ctx, m.send, consumer.RunConfig{
		Workers: 16, Order: consumer.ByKey, // the mails of one user stay in order
		AttemptTimeout: time.Second,
		Retries:        2, MinBackoff: time.Millisecond, // for what passes at once
		RetryTopics: &consumer.RetryTopics{Producer: m.p, Stages: []consumer.RetryStage{{Topic: "mails-retry", Delay: 100 * time.Millisecond}}},
		DeadLetter:  m.deadLetter,
	})
	// The shutdown recipe, part 2: Run has returned, so handlers at work have finished. ctx has
	// ended; what is done is committed, and the group told that this member leaves, under a context
	// that has not, with a bound of its own.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err = errors.Join(err, c.Shutdown(last)); err != nil {
		return err
	}
	fmt.Fprintf(w, "  %d mails sent, at most %d at a time, in %d ms; clean end\n", m.n.Load()-before, m.most.Load(), time.Since(start).Milliseconds())
	return nil
}

// send is the handler.
func (m *mailer) send(ctx context.Context, r record.Record) error {
	busy := m.busy.Add(1)
	defer m.busy.Add(-1)
	for most := m.most.Load(); busy > most && !m.most.CompareAndSwap(most, busy); most = m.most.Load() {
	}
	time.Sleep(time.Millisecond) // the mail server
	switch id := string(r.Value); {
	case id == "13":
		return consumer.Permanent(errors.New("no such mailbox")) // trying again would not help
	case id == "77":
		var body []byte
		_ = body[77] // a bug: only this mail suffers from it
	case id == "222":
		<-ctx.Done() // the server hangs
		return context.Cause(ctx)
	case id == "100" && consumer.Attempt(ctx) < 3:
		return errors.New("server is busy") // passes at once
	case id == "150" && r.Topic == "mails":
		return errors.New("mailbox is full") // passes later
	}
	m.mu.Lock()
	m.sent[string(r.Value)]++
	m.mu.Unlock()
	n := m.n.Add(1)
	if m.each != nil {
		m.each(n)
	}
	m.left()
	return nil
}

func (m *mailer) deadLetter(ctx context.Context, r record.Record, err error) error {
	if err := consumer.DeadLetterTopic(m.p, "mails-failed")(ctx, r, err); err != nil {
		return err
	}
	m.mu.Lock()
	m.failed++
	m.mu.Unlock()
	m.left()
	return nil
}

// left ends the example when every mail is sent or has failed.
func (m *mailer) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all != nil && len(m.sent)+m.failed == total {
		m.all()
	}
}

// report tells why each failed mail did.
func (m *mailer) report(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "not sent:")
	c, err := consumer.New(m.cluster, consumer.Config{Topics: []string{"mails-failed"}})
	if err != nil {
		return err
	}
	defer c.Close()
	for range m.failed {
		b, err := c.Poll(ctx)
		if err != nil {
			return err
		}
		for r := range b.All() {
			from, offset, _ := consumer.Origin(r)
			attempts, _ := r.Header(consumer.HeaderAttempts)
			reason, _ := r.Header(consumer.HeaderError)
			fmt.Fprintf(w, "  mail %s from %s-%d, offset %d, after %s attempts: %s\n", r.Value, from.Topic, from.Partition, offset, attempts, reason)
			m.failed--
		}
		if m.failed == 0 {
			break
		}
	}
	return nil
}

// verdict checks what the example claims: the stop in the middle loses nothing. What it repeats was
// done behind a mail that was not, so that its offset could not be committed: workers are
// at-least-once, and a handler that must not repeat keeps ids.
func (m *mailer) verdict(w io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	again := 0
	for id, n := range m.sent {
		if n > 2 {
			return fmt.Errorf("mail %s was sent %d times by two processes", id, n)
		}
		again += n - 1
	}
	if want := total - 3; len(m.sent) != want {
		return fmt.Errorf("%d different mails sent instead of %d", len(m.sent), want)
	}
	fmt.Fprintf(w, "none lost; %d sent again by the second process: they lay behind one that was not done\n", again)
	return nil
}
