// Command workers sends mails with a pool of workers behind one consumer, as a service would. Only
// the mails of one user stay in order, and offsets are committed without gaps. A failed mail is
// retried at once, later, or never. Every mail that could not be sent is in a dead letter topic
// with the reason. SIGTERM or Ctrl-C ends the process without losing a mail. The program prints
// which mails the next process repeats, and why.
//
//	go run ./examples/workers [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	total = 400
	users = 50
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	// The shutdown recipe, part 1: SIGTERM ends the context, and nothing else.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for _, name := range []string{"mails", "mails-retry", "mails-failed"} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range total {
		if _, err := p.Send(ctx, record.String(at.Name("mails"), fmt.Sprintf("user-%d", i%users), fmt.Sprint(i))); err != nil {
			return err
		}
	}

	m := &mailer{cluster: cluster, p: p, sent: map[string]int{}, ways: map[string]string{}}
	fmt.Fprintln(w, "The first process gets SIGTERM in the middle. It finishes the mails in progress, then it ends:")
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
	fmt.Fprintln(w, "The second process sends the rest:")
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

// A mailer is the application. It records the mails that it has sent.
type mailer struct {
	cluster strata.Client
	p       *producer.Producer
	each    func(n int64) // called after each mail
	all     func()        // called when no mail is left

	busy, most, n atomic.Int64

	mu     sync.Mutex // guards the fields below
	sent   map[string]int
	failed int
	ways   map[string]string // of the mails that failed at least once: each attempt, with its topic
	lives  int               // processes that were started
}

// attempted records the outcome of an attempt: "x" or "sent".
func (m *mailer) attempted(r record.Record, outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	way, id := m.ways[string(r.Value)], string(r.Value)
	if way == "" && outcome != "x" {
		return
	}
	place := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
	if at := strings.LastIndex(way, "mails"); at < 0 {
		way = place
	} else if last, _, _ := strings.Cut(way[at:], " "); last != place {
		way += " -> " + place
	}
	if m.lives == 2 && !strings.Contains(way, "|") {
		way += " |"
	}
	m.ways[id] = way + " " + outcome
}

// process is one process of the mail service, from its start to its clean end.
func (m *mailer) process(ctx context.Context, w io.Writer) (err error) {
	start, before := time.Now(), m.n.Load()
	m.mu.Lock()
	m.lives++
	m.mu.Unlock()
	retryTopic := at.Name("mails-retry")
	c, err := consumer.New(m.cluster, consumer.Config{Group: at.Name("mailers"), Topics: []string{at.Name("mails"), retryTopic}})
	if err != nil {
		return err
	}
	err = c.Run(ctx, m.send, consumer.RunConfig{
		Workers: 16, Order: consumer.ByKey, // the mails of one user stay in order
		AttemptTimeout: time.Second,
		Retries:        2, MinBackoff: time.Millisecond, // for failures that pass quickly
		RetryTopics: &consumer.RetryTopics{Producer: m.p, Stages: []consumer.RetryStage{
			{Topic: retryTopic, Delay: 100 * time.Millisecond}, // for failures that need more time
		}},
		DeadLetter: m.deadLetter, // for permanent failures
	})
	// The shutdown recipe, part 2: Run has returned, so active handlers have finished. ctx has
	// ended, so Shutdown gets another context with its own timeout. It commits the offsets of
	// finished mails and leaves the group.
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
	outcome := "x" // also if the handler panics
	defer func() { m.attempted(r, outcome) }()
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
		return errors.New("server is busy") // passes quickly
	case id == "150" && r.Topic == at.Name("mails"):
		return errors.New("mailbox is full") // passes later
	}
	outcome = "sent"
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
	if err := consumer.DeadLetterTopic(m.p, at.Name("mails-failed"))(ctx, r, err); err != nil {
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

// report prints the reason of each failed mail.
func (m *mailer) report(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "Mails in the dead letter topic, with their headers:")
	c, err := consumer.New(m.cluster, consumer.Config{Topics: []string{at.Name("mails-failed")}})
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
			fmt.Fprintf(w, "  mail %s from %s-%d, offset %d, after %s attempts:\n    %s\n", r.Value, from.Topic, from.Partition, offset, attempts, reason)
			fmt.Fprintf(w, "    %s -> %s-%d\n", m.way(r), r.Topic, r.Partition)
			m.failed--
		}
		if m.failed == 0 {
			break
		}
	}
	fmt.Fprintf(w, "Two mails failed and were sent later (x is a failed attempt, | the start of the second process):\n    mail 100: %s\n    mail 150: %s\n",
		m.way(record.String("", "", "100")), m.way(record.String("", "", "150")))
	return nil
}

// way returns the attempts to send a mail.
func (m *mailer) way(r record.Record) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ways[string(r.Value)]
}

// verdict checks the claims of the example. The stop in the middle loses nothing. A mail is
// repeated if an earlier mail of its partition was not done, so that its offset could not be
// committed. Workers are at-least-once: a handler that must not repeat has to keep ids.
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
	fmt.Fprintf(w, "None lost; the second process sent %d again: their offsets were after a mail that was not done, so they could not be committed.\n", again)
	return nil
}
