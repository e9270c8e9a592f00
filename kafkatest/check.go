package kafkatest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/transaction"
)

// Code is client code that Check tests: a producer, a consumer, a transformer, a member of a share
// group, or several of them. Its functions run on their own goroutines, so they must return errors
// instead of calling t.Fatal. They connect to s with s.Addrs and s.Dial, and must close their
// clients before they return.
type Code struct {
	// Produce writes the records in the given order with the client code. It returns nil when all
	// are acknowledged, or an error when it gives up. It must write Topic, Key and Value unchanged.
	// Check requires that each partition has its records once and in that order.
	Produce func(ctx context.Context, s *Server, rs []record.Record) error

	// Consume reads Topic as a member of a group until ctx ends. In partitions without a committed
	// offset it must begin at the first record. It must call process for each record; process
	// stands for the work of an application, and is safe for concurrent use. If process returns an
	// error the record was not processed: Consume must return without committing that record. ctx
	// ends soon after. The result of Consume after the end of ctx is ignored.
	//
	// Check calls Consume again after it has returned, and twice at the same time for a member that
	// joins. Each call must create its own client.
	Consume func(ctx context.Context, s *Server, process func(partition int32, offset int64) error) error

	// MayRepeat allows Consume to process a record again after a fault: at-least-once. Without
	// MayRepeat, and always without a fault, each record must be processed exactly once. It applies
	// to Consume only.
	MayRepeat bool

	// Transform reads Topic as a member of a group, and writes to Output in transactions that
	// commit the group's offsets too, until ctx ends (KIP-98, KIP-447). In partitions without a
	// committed offset it must begin at the first record, and it must read committed records only.
	// It must call transform for each record, in the order of each partition, and write the result
	// with its Topic, Key and Value unchanged. transform is safe for concurrent use. If it returns
	// an error, Transform must return without committing that record. ctx ends soon after.
	//
	// id is a transactional id, which no other call has at the same time. Check calls Transform
	// again with the same id after it has returned, as a program that is started again, and with
	// another id at the same time for a member that joins. Each call must create its own clients.
	//
	// Check requires that the committed records of Output have the result of each record once. In
	// each partition of Output, the results of one partition of Topic must be in order. At the end
	// the group must have committed all offsets.
	Transform func(ctx context.Context, s *Server, id string, transform func(partition int32, offset int64) (record.Record, error)) error

	// Work processes Topic as a member of a share group (KIP-932) until ctx ends. The group must
	// begin at the first record (share.auto.offset.reset=earliest). Work must call work for each
	// record that it acquires, and then acknowledge the record as work returns: share.Accept,
	// share.Release or share.Reject. work is safe for concurrent use. If it returns an error, Work
	// must return without acknowledging the record, or release it. ctx ends soon after.
	//
	// Check calls Work again after it has returned, and twice at the same time for a member that
	// joins. Each call must create its own client.
	//
	// work returns share.Release for some records at their first delivery, and share.Reject for
	// some. Check requires that each record is delivered until work has returned share.Accept or
	// share.Reject, and is not delivered again later unless there was a fault. It examines the
	// acknowledgements in the requests: before work has returned one of them for a record, that
	// record must not be acknowledged with it.
	Work func(ctx context.Context, s *Server, work func(partition int32, offset int64) (share.AckType, error)) error

	Topic      string // name of the topic; "" means "checked"
	Output     string // name of the topic that Transform writes; "" means Topic and "-out"
	Partitions int    // number of partitions of Topic; 0 means the number in Config, or 3
	Records    int    // number of records of a run, at least 10; 0 means 60

	// Config is the configuration of the servers. If Brokers or the replicas of Topic are not set,
	// Check uses three. At least two of each are needed, because brokers stop during the runs. Dir,
	// FS, Pipe and Clock cannot be set; Listen needs RealTime.
	Config Config

	// RealTime runs Code over TCP and without a testing/synctest bubble, for clients that do not
	// work in one. Timeouts then take real time, and a slow response takes a quarter of a second.
	// Each step may take Config.WaitTimeout, or 2 min if that is 0: sarama waits 30 s for a lost
	// response.
	RealTime bool
}

// Check runs code without a fault, and then once with each fault of a list, each time against a new
// server. A run fails if records were lost, duplicated or reordered, or if code gave up. Every
// fault is temporary, so that a client can continue: requests, responses and connections are lost,
// slow or cut; errors are retriable, some of them after the request was applied; brokers stop, are
// killed or are silent; leaders and coordinators move; members join, leave and are removed; a
// consumer is ended in the middle of a record, or cut off from the network while it commits.
//
// Each run is a subtest, named by function and fault: produce/answer-lost. It can run alone (go
// test -run 'TestOrders/produce/answer-lost'). A failure lists the records that were lost,
// duplicated, altered and reordered, and the last requests. Unless Code.RealTime is set, a run is
// in a testing/synctest bubble, where timeouts cost no time.
//
// Check compares the records in the log for Produce and Transform, and the calls of process and
// work for Consume and Work. The last three get the first half of the records before the fault and
// the other half during it. Then they are called once more with further records, which shows the
// records that were not committed.
//
// Check returns when all runs have ended. It fails t at once if code is invalid.
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
	if code.Transform != nil {
		t.Run("transform", func(t *testing.T) { code.each(t, transformFaults, code.checkTransform) })
	}
	if code.Work != nil {
		t.Run("work", func(t *testing.T) { code.each(t, workFaults, code.checkWork) })
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

// leastChecked is the smallest number of records of which some come before a fault and some after
// it.
const leastChecked = 10

// complete sets the defaults, and returns an error for invalid values.
func (c *Code) complete() error {
	if c.Topic == "" {
		c.Topic = "checked"
	}
	own := c.Config.TopicConfigs[c.Topic]
	c.Partitions = cmp.Or(c.Partitions, c.Config.Topics[c.Topic], own.Partitions, 3)
	c.Output = cmp.Or(c.Output, c.Topic+"-out")
	if c.Records == 0 {
		c.Records = 60
	}
	c.Config.Brokers = cmp.Or(c.Config.Brokers, 3)
	if c.Config.Replicas == 0 && c.Config.Defaults.ReplicationFactor == 0 {
		c.Config.Replicas = min(c.Config.Brokers, 3)
	}
	replicas := cmp.Or(own.ReplicationFactor, c.Config.Replicas, c.Config.Defaults.ReplicationFactor)
	switch {
	case c.Produce == nil && c.Consume == nil && c.Transform == nil && c.Work == nil:
		return errors.New("Check: Code has none of Produce, Consume, Transform and Work")
	case c.Output == c.Topic:
		return fmt.Errorf("Check: Code.Topic and Code.Output are both %s", c.Topic)
	case c.Work != nil && !c.sharesServed():
		return errors.New("Check: Code has Work, and the release or VersionCaps in Code.Config have no share groups")
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

// sharesServed reports whether the servers of the runs have share groups.
func (c *Code) sharesServed() bool {
	limit, ok := versionCaps(c.Config.Release, c.Config.VersionCaps)[int16(kafka.ShareFetch)]
	return !ok || limit >= 0
}

// A checkRun is one run of code against its own server, with the observed results.
type checkRun struct {
	*Code
	s    *Server
	slow time.Duration   // time of a slow request
	ends context.Context // of the run; each step has its own deadline (step)
	next int             // number of the next record to be made
}

// realTimeWait bounds a step in real time. It is more than twice the default request timeout of
// clients.
const realTimeWait = 2 * time.Minute

// start starts the server of a run, which ends when cancel is called.
func (c *Code) start(t *testing.T) (r *checkRun, cancel func()) {
	cfg := c.Config
	cfg.Pipe = !c.RealTime
	cfg.Topics = maps.Clone(cfg.Topics)
	if cfg.Topics == nil {
		cfg.Topics = map[string]int{}
	}
	cfg.Topics[c.Topic] = c.Partitions
	if c.Transform != nil && cfg.Topics[c.Output] == 0 && cfg.TopicConfigs[c.Output].Partitions == 0 {
		cfg.Topics[c.Output] = c.Partitions
	}
	if c.RealTime {
		cfg.WaitTimeout = cmp.Or(cfg.WaitTimeout, realTimeWait)
	}
	r = &checkRun{Code: c, s: New(t, cfg), slow: time.Minute + 14*time.Millisecond}
	if c.RealTime {
		r.slow = 250 * time.Millisecond
	}
	r.ends, cancel = context.WithCancel(context.Background())
	return r, cancel
}

// step returns the context of one step of the run. Its time is independent of earlier steps.
func (r *checkRun) step() (context.Context, context.CancelFunc) { return r.s.boundedContext(r.ends) }

// make makes the next n records.
func (r *checkRun) make(n int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		rs[i] = record.String(r.Topic, fmt.Sprintf("key %d", r.next%7), fmt.Sprintf("record %d", r.next))
		r.next++
	}
	return rs
}

// checkProduce runs Produce, and returns the findings in the log.
func (c *Code) checkProduce(t *testing.T, f checkFault) string {
	r, cancel := c.start(t)
	defer cancel()
	rs := r.make(c.Records)
	found := newFindings()
	for i, w := range rs {
		found.expect(string(w.Value), i)
	}
	act := f.begin(r)
	bounded, end := r.step()
	defer end()
	running, ended := context.WithCancel(bounded)
	gaveUp := make(chan error, 1)
	began := time.Now()
	go func() {
		defer ended()
		gaveUp <- c.Produce(bounded, r.s, rs)
	}()
	act(running)
	if err := <-gaveUp; err != nil && bounded.Err() != nil {
		found.failed = fmt.Sprintf("Produce was not done after %s (Config.WaitTimeout or the test's own deadline) and was ended: %v", time.Since(began).Round(time.Millisecond), err)
	} else if err != nil {
		found.failed = fmt.Sprintf("Produce gave up: %v", err)
	}
	if err := r.decided("Produce"); err != nil {
		found.failed = strings.TrimPrefix(found.failed+"; "+err.Error(), "; ")
	}
	for _, w := range r.s.Topic(c.Topic) {
		if rank, ok := found.ranks[string(w.Value)]; ok && !bytes.Equal(w.Key, rs[rank].Key) {
			found.altered = append(found.altered, fmt.Sprintf("the key of %s is %q", w.Value, w.Key))
		}
		found.add(w.Partition, string(w.Value))
	}
	return found.text(r.s)
}

// decided waits until the log has the markers of all ended transactions, which are written after
// the response. code is the name of the function that ended them. The error names a transaction
// without its markers.
func (r *checkRun) decided(code string) error {
	ctx, cancel := r.step()
	defer cancel()
	for {
		all, err := r.s.Cluster().Transactions(ctx)
		left := slices.IndexFunc(all, func(d transaction.Description) bool { return d.State.Prepared() })
		if err == nil && left < 0 {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
			continue
		case <-ctx.Done():
		}
		if left >= 0 {
			return fmt.Errorf("transaction %q, which %s ended, has markers that are not written: it is %v", all[left].ID, code, all[left].State)
		}
		return fmt.Errorf("the transactions of the server could not be listed: %w", err)
	}
}
