package kafkatest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// produced writes records with a franz-go client with options, and waits for the answers.
func produced(ctx context.Context, s *Server, rs []record.Record, opts ...kgo.Opt) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial)}, opts...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, forKgo(rs)...).FirstErr()
}

func forKgo(rs []record.Record) (out []*kgo.Record) {
	for _, r := range rs {
		out = append(out, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value})
	}
	return out
}

func rightProducer(ctx context.Context, s *Server, rs []record.Record) error {
	return produced(ctx, s, rs)
}

// transactional writes all records in one transaction.
func transactional(ctx context.Context, s *Server, rs []record.Record) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.TransactionalID("t"))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, forKgo(rs)...).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

// keyless writes the values only.
func keyless(ctx context.Context, s *Server, rs []record.Record) error {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Key = nil
	}
	return rightProducer(ctx, s, rs)
}

// forgetful ignores errors.
func forgetful(ctx context.Context, s *Server, rs []record.Record) error {
	_ = produced(ctx, s, rs, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	return nil
}

// insistent retries without idempotence.
func insistent(ctx context.Context, s *Server, rs []record.Record) error {
	return produced(ctx, s, rs, kgo.DisableIdempotentWrite())
}

// postponing writes records one by one. It retries failed records after all others.
func postponing(ctx context.Context, s *Server, rs []record.Record) error {
	for len(rs) > 0 && ctx.Err() == nil {
		var failed []record.Record
		for i := range rs {
			if produced(ctx, s, rs[i:i+1], kgo.DisableIdempotentWrite(), kgo.RecordRetries(0)) != nil {
				failed = append(failed, rs[i])
			}
		}
		rs = failed
	}
	return ctx.Err()
}

// consumed calls do for each poll of a franz-go client. It allows rebalances between the calls.
func consumed(ctx context.Context, s *Server, do func(*kgo.Client, []*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("checked"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		if err := do(cl, cl.PollRecords(ctx, 10).Records()); err != nil {
			return err
		}
		cl.AllowRebalance()
	}
	return nil
}

// commit commits a record, and retries while the error is retriable.
func commit(ctx context.Context, cl *kgo.Client, r *kgo.Record) {
	for ctx.Err() == nil {
		err := cl.CommitRecords(ctx, r)
		if kafkas := new(kerr.Error); err == nil || errors.As(err, &kafkas) && !kafkas.Retriable {
			return // after a final error the next owner of the partition reads the record again
		}
	}
}

type process = func(partition int32, offset int64) error

// rightConsumer commits each record that was processed.
func rightConsumer(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(cl *kgo.Client, rs []*kgo.Record) error {
		for _, r := range rs {
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
			commit(ctx, cl, r)
		}
		return nil
	})
}

// hasty commits a record before it is processed.
func hasty(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(cl *kgo.Client, rs []*kgo.Record) error {
		for _, r := range rs {
			commit(ctx, cl, r)
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
		}
		return nil
	})
}

// uncommitted commits nothing.
func uncommitted(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(_ *kgo.Client, rs []*kgo.Record) error {
		for _, r := range rs {
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
		}
		return nil
	})
}

// batchwise commits the records of a poll after it has processed them all.
func batchwise(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(cl *kgo.Client, rs []*kgo.Record) error {
		for _, r := range rs {
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
		}
		for _, r := range rs {
			commit(ctx, cl, r)
		}
		return nil
	})
}

// backwards processes the records of a poll in reverse order.
func backwards(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(cl *kgo.Client, rs []*kgo.Record) error {
		for _, r := range slices.Backward(rs) {
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
		}
		for _, r := range rs {
			commit(ctx, cl, r)
		}
		return nil
	})
}

// quitter returns after it has processed one record.
func quitter(ctx context.Context, s *Server, process process) error {
	return consumed(ctx, s, func(_ *kgo.Client, rs []*kgo.Record) error {
		for _, r := range rs {
			return errors.Join(process(r.Partition, r.Offset), errors.New("enough"))
		}
		return nil
	})
}

// marking uses franz-go's periodic commit of processed records.
func marking(ctx context.Context, s *Server, process process) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("checked"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		for _, r := range cl.PollRecords(ctx, 10).Records() {
			if err := process(r.Partition, r.Offset); err != nil {
				return err
			}
			cl.MarkCommitRecords(r)
		}
		cl.AllowRebalance()
	}
	return nil
}

func TestCheckPassesARightClient(t *testing.T) {
	t.Run("commits each", func(t *testing.T) { Check(t, Code{Produce: rightProducer, Consume: rightConsumer}) })
	t.Run("marks", func(t *testing.T) { Check(t, Code{Consume: marking, MayRepeat: true}) })
}

// A committed transaction is visible in the log a little later.
func TestCheckPassesTransactions(t *testing.T) {
	for range 40 {
		require.Empty(t, found(t, Code{Produce: transactional}, "undisturbed"))
	}
}

// found runs Check with one fault, and returns its finding without the requests.
func found(t *testing.T, c Code, fault string) (text string) {
	t.Helper()
	require.NoError(t, c.complete())
	faults, check := produceFaults, c.checkProduce
	switch {
	case c.Consume != nil:
		faults, check = consumeFaults, c.checkConsume
	case c.Transform != nil:
		faults, check = transformFaults, c.checkTransform
	case c.Work != nil:
		faults, check = workFaults, c.checkWork
	}
	at := slices.IndexFunc(faults, func(f checkFault) bool { return f.name == fault })
	require.NotEqual(t, -1, at, fault)
	if c.RealTime {
		text = check(t, faults[at])
	} else {
		synctest.Test(t, func(t *testing.T) { text = check(t, faults[at]) })
	}
	text, _, _ = strings.Cut(text, "\n")
	return text
}

func TestCheckFindsWhatProducersGetWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		produce func(context.Context, *Server, []record.Record) error
		fault   string
		finds   string
	}{
		{"forgetful", forgetful, "undisturbed", ""},
		{"forgetful", forgetful, "not-leader", "lost"},
		{"forgetful", forgetful, "cut-before", "lost"},
		{"forgetful", forgetful, "few-replicas", "lost"},
		{"insistent", insistent, "undisturbed", ""},
		{"insistent", insistent, "cut-before", ""},
		{"insistent", insistent, "cut-after", "doubled"},
		{"insistent", insistent, "answer-lost", "doubled"},
		{"insistent", insistent, "few-replicas-after", "doubled"},
		{"keyless", keyless, "undisturbed", "altered"},
		{"postponing", postponing, "undisturbed", ""},
		{"postponing", postponing, "not-leader", "reordered"},
	} {
		t.Run(c.name+"/"+c.fault, func(t *testing.T) {
			requireFinding(t, c.finds, found(t, Code{Produce: c.produce}, c.fault))
		})
	}
}

// requireFinding requires that text has the finding want and no other one; "" means none.
func requireFinding(t *testing.T, want, text string) {
	t.Helper()
	requireFindings(t, []string{want}, text)
}

// requireFindings is requireFinding for several findings.
func requireFindings(t *testing.T, want []string, text string) {
	t.Helper()
	for _, what := range []string{"lost", "doubled", "reordered", "altered", "not known", "gave up", "returned before", "no group has committed", "acknowledged too early"} {
		require.Equal(t, slices.Contains(want, what), strings.Contains(text, what), text)
	}
}

func TestCheckFindsWhatConsumersGetWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		consume func(context.Context, *Server, process) error
		repeats bool
		fault   string
		finds   string
	}{
		{"hasty", hasty, false, "undisturbed", ""},
		{"hasty", hasty, false, "ended", "lost"},
		{"uncommitted", uncommitted, false, "undisturbed", "doubled"},
		{"uncommitted may repeat", uncommitted, true, "undisturbed", "doubled"},
		{"batchwise", batchwise, false, "undisturbed", ""},
		{"batchwise", batchwise, false, "ended", "doubled"},
		{"batchwise may repeat", batchwise, true, "ended", ""},
		{"backwards", backwards, false, "undisturbed", "reordered"},
	} {
		t.Run(c.name+"/"+c.fault, func(t *testing.T) {
			requireFinding(t, c.finds, found(t, Code{Consume: c.consume, MayRepeat: c.repeats}, c.fault))
		})
	}
}

// Leaders and members change while the code is running, not before or after.
func TestCheckDisturbsWhatIsUnderWay(t *testing.T) {
	for fault, moves := range map[string]bool{"undisturbed": false, "leaders-move": true, "leader-stops": true, "leader-dies": true} {
		before, after := int32(0), int32(0)
		require.Empty(t, found(t, Code{Produce: func(ctx context.Context, s *Server, rs []record.Record) error {
			before = s.Leader("checked", 0)
			defer func() { after = s.Leader("checked", 0) }()
			return rightProducer(ctx, s, rs)
		}}, fault))
		require.Equal(t, moves, before != after, fault)
	}
	for fault, members := range map[string]int32{"undisturbed": 1, "member-joins": 2} {
		var running, most atomic.Int32
		require.Empty(t, found(t, Code{Consume: func(ctx context.Context, s *Server, process process) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			return rightConsumer(ctx, s, process)
		}}, fault))
		require.Equal(t, members, most.Load(), fault)
	}
}

func TestCheckSaysWhoGivesUp(t *testing.T) {
	fails := func(context.Context, *Server, []record.Record) error { return errors.New("no luck") }
	require.Contains(t, found(t, Code{Produce: fails, Records: 12}, "leaders-move"), "Produce gave up: no luck; lost 12 of 12: record 0, record 1")
	require.Contains(t, found(t, Code{Consume: quitter}, "undisturbed"), "Consume returned before it was to end: enough")
	other := func(ctx context.Context, s *Server, rs []record.Record) error {
		rs = slices.Clone(rs)
		rs[3].Value = []byte("else")
		return rightProducer(ctx, s, rs)
	}
	require.Equal(t, `lost 1 of 60: record 3; not known 1 of 60: "else"`, found(t, Code{Produce: other}, "undisturbed"))
}

func TestCheckRunsInRealTime(t *testing.T) {
	t.Parallel() // franz-go waits for seconds
	t.Run("right producer", func(t *testing.T) {
		at := ""
		require.Empty(t, found(t, Code{RealTime: true, Produce: func(ctx context.Context, s *Server, rs []record.Record) error {
			at = s.Addrs()[0]
			return rightProducer(ctx, s, rs)
		}}, "cut-after"))
		require.Contains(t, at, "127.0.0.1:", "TCP")
	})
	t.Run("insistent producer", func(t *testing.T) {
		requireFinding(t, "doubled", found(t, Code{Produce: insistent, RealTime: true}, "cut-after"))
	})
	t.Run("right consumer", func(t *testing.T) {
		require.Empty(t, found(t, Code{Consume: rightConsumer, RealTime: true}, "ended"))
	})
}

func TestCheckRefusesWhatMakesNoSense(t *testing.T) {
	for text, c := range map[string]Code{
		"none of":                 {},
		"Partitions":              {Produce: rightProducer, Partitions: -1},
		"Records":                 {Produce: rightProducer, Records: 9},
		"Pipe":                    {Produce: rightProducer, Config: Config{Pipe: true}},
		"has Dir":                 {Produce: rightProducer, Config: Config{Dir: "there"}},
		"Listen without RealTime": {Produce: rightProducer, Config: Config{Listen: func(int32) (net.Listener, error) { return nil, nil }}},
		"1 brokers, and 1 replicas of topic checked": {Produce: rightProducer, Config: Config{Brokers: 1}},
		"3 brokers, and 1 replicas of topic checked": {Produce: rightProducer, Config: Config{Replicas: 1}},
		"3 brokers, and 1 replicas of topic orders":  {Produce: rightProducer, Topic: "orders", Config: Config{TopicConfigs: map[string]topic.Config{"orders": {ReplicationFactor: 1}}}},
		"both checked":                         {Transform: rightTransformer, Output: "checked"},
		"no share groups":                      {Work: rightWorker, Config: Config{Release: Kafka4_0}},
		"has another number for topic checked": {Produce: rightProducer, Partitions: 2, Config: Config{Topics: map[string]int{"checked": 7}}},
		"has another number for topic orders":  {Produce: rightProducer, Partitions: 2, Topic: "orders", Config: Config{TopicConfigs: map[string]topic.Config{"orders": {Partitions: 1}}}},
	} {
		require.ErrorContains(t, c.complete(), text)
	}
	c := Code{Produce: rightProducer, Topic: "orders", Config: Config{Brokers: 2, Topics: map[string]int{"orders": 7}}}
	require.NoError(t, c.complete())
	require.Equal(t, 7, c.Partitions)
	require.Equal(t, 2, c.Config.Replicas)
}

// A fault that ends a broker needs replicas on others, also if the test sets the number of
// brokers.
func TestCheckHasAsManyReplicasAsThereAreBrokers(t *testing.T) {
	for _, fault := range []string{"leader-stops", "leader-dies"} {
		for brokers := range 4 {
			if brokers != 1 {
				require.Empty(t, found(t, Code{Produce: rightProducer, Config: Config{Brokers: brokers}}, fault))
			}
		}
	}
}

// The subtest of the fault fails, and the others pass.
func TestCheckFailsTheSubtestOfTheFault(t *testing.T) {
	if os.Getenv("KAFKATEST_CHECK") != "" {
		Check(t, Code{Produce: insistent})
		return
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.run", "^TestCheckFailsTheSubtestOfTheFault$/^produce$/^(undisturbed|cut-after|cut-before)$")
	cmd.Env = append(os.Environ(), "KAFKATEST_CHECK=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	text := string(out)
	require.Contains(t, text, "--- FAIL: TestCheckFailsTheSubtestOfTheFault/produce/cut-after")
	require.Contains(t, text, "--- PASS: TestCheckFailsTheSubtestOfTheFault/produce/cut-before")
	require.Contains(t, text, "--- PASS: TestCheckFailsTheSubtestOfTheFault/produce/undisturbed")
	require.Contains(t, text, "kafkatest: the connection is cut after a produce request was served: doubled")
	require.Contains(t, text, "Produce v", "the last requests")
}
