package kafkatest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// Code is client code for Check to try out: what produces, what consumes, or both. Its functions
// run on goroutines of their own, so they return errors where a test would call t.Fatal. They
// connect to s by s.Addrs and s.Dial, and have closed their clients when they return.
type Code struct {
	// Produce writes the records with the client code, in the order in which they are given, and
	// returns when all are acknowledged, or an error when it gives up. Topic, Key and Value are to
	// be written as they are. Each partition has to have its records once and in that order.
	Produce func(ctx context.Context, s *Server, rs []record.Record) error

	// Consume reads Topic as a member of a group, from the first record where the group has no
	// offset, until ctx ends; what it returns then is not looked at. It calls process, which stands
	// for what an application does with a record, for each one; process is safe for concurrent
	// use. An error of process says that the record was not processed, and that ctx is about to
	// end: Consume is to return, and not to commit that record.
	//
	// It is called again after it has returned, and a second time beside the first one where a
	// member joins. What it needs is made anew in each call.
	Consume func(ctx context.Context, s *Server, process func(partition int32, offset int64) error) error

	// MayRepeat says that Consume may process a record again when something has gone wrong: at
	// least once. Without it, and where nothing goes wrong, each record is to be processed once.
	MayRepeat bool

	Topic      string // that is written to or read. Empty: "checked"
	Partitions int    // of Topic. 0: those that Config has for it, or 3
	Records    int    // how many are written, and read; at least 10. 0: 60

	// Config is that of the servers. If it does not say how many Brokers there are, or Replicas of
	// Topic, there are three; fewer than two are refused, as brokers go. Dir, FS, Pipe and Clock
	// cannot be set, nor Listen without RealTime.
	Config Config

	// RealTime runs over TCP and without a testing/synctest bubble, for clients that do not work
	// in one. They wait for their timeouts then, and what is slow takes a quarter of a second.
	RealTime bool
}

// Check runs code undisturbed and then once for each of a list of faults, against a server of its
// own each time, and fails the runs in which records were lost, doubled or reordered, or in which
// the code has given up. Every fault passes by, so that a client can go on: requests, answers and
// connections are lost, slow or cut, errors ask to try again, some of them after the work was done,
// brokers are stopped, killed or silent, leaders and coordinators move, members join and leave and
// are put out, and a consumer is ended in the middle of a record.
//
// Each run is a subtest, named by what is checked and the fault: produce/answer-lost. By that name
// it runs alone (go test -run 'TestOrders/produce/answer-lost'). A failure says which records were
// lost, doubled, altered and reordered, and what was requested last. Unless Code.RealTime is set it
// runs in a testing/synctest bubble, where timeouts cost no time.
//
// What counts is the log for Produce, and for Consume the calls of process. A consumer gets the
// first half of the records before something goes wrong and the other half while it does. Then it
// is called once again for some more, where what it has not committed shows.
//
// Check returns when all runs have ended, and fails t at once if code makes no sense.
func Check(t *testing.T, code Code) {
	t.Helper()
	if err := code.complete(); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	if code.Produce != nil {
		t.Run("produce", func(t *testing.T) { code.each(t, produceFaults, code.checkProduce) })
	}
	if code.Consume != nil {
		t.Run("consume", func(t *testing.T) { code.each(t, consumeFaults, code.checkConsume) })
	}
}

// each runs check in a subtest for each fault.
func (c *Code) each(t *testing.T, faults []checkFault, check func(*testing.T, checkFault) string) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			run := func(t *testing.T) {
				if found := check(t, f); found != "" {
					t.Errorf("kafkatest: %s: %s", f.what, found)
				}
			}
			if c.RealTime {
				run(t)
				return
			}
			synctest.Test(t, run)
		})
	}
}

// leastChecked is how few records there can be for some to come before a fault and some after it.
const leastChecked = 10

// complete puts in the defaults, and says what makes no sense.
func (c *Code) complete() error {
	if c.Topic == "" {
		c.Topic = "checked"
	}
	own := c.Config.TopicConfigs[c.Topic]
	c.Partitions = cmp.Or(c.Partitions, c.Config.Topics[c.Topic], own.Partitions, 3)
	if c.Records == 0 {
		c.Records = 60
	}
	c.Config.Brokers = cmp.Or(c.Config.Brokers, 3)
	if c.Config.Replicas == 0 && c.Config.Defaults.ReplicationFactor == 0 {
		c.Config.Replicas = min(c.Config.Brokers, 3)
	}
	replicas := cmp.Or(own.ReplicationFactor, c.Config.Replicas, c.Config.Defaults.ReplicationFactor)
	switch {
	case c.Produce == nil && c.Consume == nil:
		return errors.New("Check: Code has neither Produce nor Consume")
	case c.Partitions < 0:
		return fmt.Errorf("Check: Code.Partitions is %d", c.Partitions)
	case c.Records < leastChecked:
		return fmt.Errorf("Check: Code.Records is %d, less than %d", c.Records, leastChecked)
	case c.Partitions != cmp.Or(c.Config.Topics[c.Topic], c.Partitions) || c.Partitions != cmp.Or(own.Partitions, c.Partitions):
		return fmt.Errorf("Check: Code.Partitions is %d, and Code.Config has another number for topic %s", c.Partitions, c.Topic)
	case c.Config.Brokers == 1 || replicas == 1:
		return fmt.Errorf("Check: Code.Config has %d brokers, and %d replicas of topic %s: two of each is the least, as brokers go", c.Config.Brokers, replicas, c.Topic)
	case c.Config.Listen != nil && !c.RealTime:
		return errors.New("Check: Code.Config has Listen without RealTime: in a bubble the network is in memory")
	case c.Config.Dir != "" || c.Config.FS != nil || c.Config.Pipe || c.Config.Clock:
		return errors.New("Check: Code.Config has Dir, FS, Pipe or Clock: the servers of Check are in memory, each with its own, and in its bubbles")
	}
	return nil
}

// A checkRun is code that runs against a server of its own, and what is seen of it.
type checkRun struct {
	*Code
	s    *Server
	slow time.Duration // how long what is slow takes
	ends context.Context
	next int // the number of the next record to be made
}

// start starts the server of a run, which ends when cancel is called or it takes too long.
func (c *Code) start(t *testing.T) (r *checkRun, cancel func()) {
	cfg := c.Config
	cfg.Pipe = !c.RealTime
	cfg.Topics = maps.Clone(cfg.Topics)
	if cfg.Topics == nil {
		cfg.Topics = map[string]int{}
	}
	cfg.Topics[c.Topic] = c.Partitions
	r = &checkRun{Code: c, s: New(t, cfg), slow: time.Minute + 14*time.Millisecond}
	if c.RealTime {
		r.slow = 250 * time.Millisecond
	}
	r.ends, cancel = r.s.waitContext()
	return r, cancel
}

// make makes the next n records.
func (r *checkRun) make(n int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		rs[i] = record.String(r.Topic, fmt.Sprintf("key %d", r.next%7), fmt.Sprintf("record %d", r.next))
		r.next++
	}
	return rs
}

// checkProduce runs Produce, and returns what is wrong in the log then.
func (c *Code) checkProduce(t *testing.T, f checkFault) string {
	r, cancel := c.start(t)
	defer cancel()
	rs := r.make(c.Records)
	found := newFindings()
	for i, w := range rs {
		found.expect(string(w.Value), i)
	}
	act := f.begin(r)
	running, ended := context.WithCancel(r.ends)
	gaveUp := make(chan error, 1)
	go func() {
		defer ended()
		gaveUp <- c.Produce(r.ends, r.s, rs)
	}()
	act(running)
	if err := <-gaveUp; err != nil {
		found.failed = fmt.Sprintf("Produce gave up: %v", err)
	}
	if err := r.decided(); err != nil {
		found.failed = fmt.Sprintf("Produce has left a transaction whose outcome does not show: %v", err)
	}
	for _, w := range r.s.Topic(c.Topic) {
		if rank, ok := found.ranks[string(w.Value)]; ok && !bytes.Equal(w.Key, rs[rank].Key) {
			found.altered = append(found.altered, fmt.Sprintf("the key of %s is %q", w.Value, w.Key))
		}
		found.add(w.Partition, string(w.Value))
	}
	return found.text(r.s)
}

// decided waits until transactions that are committed or aborted are so in the log, too: their
// markers are written after the answer.
func (r *checkRun) decided() error {
	for {
		all, err := r.s.Cluster().Transactions(r.ends)
		if err == nil && !slices.ContainsFunc(all, func(d transaction.Description) bool { return d.State.Prepared() }) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-r.ends.Done():
			return r.ends.Err()
		}
	}
}
