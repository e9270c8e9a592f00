package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

func TestOrderIsWrittenOnceThoughTheAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // virtual time
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 6}})
		lost := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, DropReply: true})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
		require.NoError(t, err)
		defer cl.Close()
		err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr()
		require.NoError(t, err)
		require.Equal(t, 1, lost.Hits())     // the broker wrote the order, and the client got no answer;
		require.Len(t, s.Topic("orders"), 1) // the client sent it again, and the broker recognised it
	})
}

func TestWorkerThatIsGoneLosesItsPartitions(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Clock: true, Topics: map[string]int{"orders": 6}}) // on TCP: any client, any process
	worker, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.InstanceID("a"))
	require.NoError(t, err)
	s.WaitGroup("billing", group.StableWith(1))
	worker.Close()              // a static member does not leave: the group waits for it
	s.Advance(46 * time.Second) // as long as its session, which takes no real time
	s.WaitGroup("billing", func(g group.Info) bool { return len(g.Members) == 0 })
}

// The brokers have a clock of their own. The test and the client use real time.
func ExampleServer_Advance() {
	_ = func(t *testing.T) { // in a test file: func TestOrdersAreKeptForAWeek(t *testing.T)
		s := kafkatest.New(t, kafkatest.Config{Clock: true, Topics: map[string]int{"orders": 1},
			Defaults: topic.Config{Properties: map[string]string{"retention.ms": "604800000"}}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
		s.Advance(6 * 24 * time.Hour)
		require.Len(t, s.Topic("orders"), 1)
		s.Advance(2 * 24 * time.Hour)
		require.Empty(t, s.Topic("orders"))
	}
}

// Operations without a method of Server use the cluster itself. Inside runs the function in the
// cluster's bubble, with a context for its calls.
func ExampleServer_Inside() {
	_ = func(t *testing.T) { // in a test file: func TestTopicIsMadeAnew(t *testing.T)
		s := kafkatest.New(t, kafkatest.Config{Clock: true, Topics: map[string]int{"orders": 1}})
		s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
			require.NoError(t, c.DeleteTopic(ctx, "orders"))
			require.NoError(t, c.CreateTopic(ctx, "orders", topic.Config{Partitions: 3}))
		})
		require.Empty(t, s.Topic("orders"))
	}
}

// program is a kafkatest.T that is not a test.
type program struct{ cleanups []func() }

func (p *program) Helper()           {}
func (p *program) Cleanup(fn func()) { p.cleanups = append(p.cleanups, fn) }
func (p *program) Logf(format string, args ...any) {
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Info(fmt.Sprintf(format, args...))
}
func (p *program) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (p *program) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func Example() {
	var p program // in a test: its *testing.T
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Topics: map[string]int{"greetings": 1}})
	s.Fill("greetings", record.String("greetings", "en", "hello"), record.String("greetings", "fr", "salut"))
	for _, r := range s.Topic("greetings") {
		fmt.Println(r.Offset, string(r.Key), string(r.Value))
	}
	// Output:
	// 0 en hello
	// 1 fr salut
}

func ExampleServer_MoveLeader() {
	var p program // in a test: its *testing.T
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})
	s.Fill("orders", record.String("orders", "", "paid"))
	s.MoveLeader("orders", 0, 3) // other brokers answer clients with NOT_LEADER_OR_FOLLOWER
	fmt.Println(s.Leader("orders", 0), len(s.Topic("orders")))
	// Output: 3 1
}

func ExampleServer_ShuffleLeaders() {
	var p program
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Brokers: 3, Replicas: 2, Topics: map[string]int{"orders": 6}})
	before := s.Leader("orders", 0)
	fmt.Println(s.ShuffleLeaders("orders"), s.Leader("orders", 0) != before)
	// Output: 6 true
}

// A follower whose fetches do not arrive delays acks=all until it leaves the in-sync set. After
// Mend it rejoins the set.
func ExampleServer_Between() {
	var p program
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Brokers: 2, Replicas: 2, Topics: map[string]int{"orders": 1}, Pipe: true})
	link := s.Between(1, 2)
	link.Cut()
	link.Mend()
	link.Slow(time.Millisecond)
	s.Fill("orders", record.String("orders", "", "paid"))
	s.WaitISR("orders", 0, 1, 2)
	fmt.Println(len(s.Topic("orders")))
	// Output: 1
}

// Check runs a worker that commits processed records, and the producer of its jobs, with all its
// faults. If the worker committed before it processed, consume/ended would fail: "lost 1 of 60: 4
// of partition 0".
func ExampleCheck() {
	_ = func(t *testing.T) { // in a test file: func TestJobsAreDone(t *testing.T)
		connect := func(s *kafkatest.Server, opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))...)
		}
		kafkatest.Check(t, kafkatest.Code{
			Topic: "jobs",
			Produce: func(ctx context.Context, s *kafkatest.Server, rs []record.Record) error {
				cl, err := connect(s)
				if err != nil {
					return err
				}
				defer cl.Close()
				for _, r := range rs {
					err = errors.Join(err, cl.ProduceSync(ctx, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}).FirstErr())
				}
				return err
			},
			Consume: func(ctx context.Context, s *kafkatest.Server, process func(int32, int64) error) error {
				cl, err := connect(s, kgo.ConsumerGroup("workers"), kgo.ConsumeTopics("jobs"), kgo.AutoCommitMarks(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
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
			},
			MayRepeat: true, // at least once
		})
	}
}

// Check runs a program that reads topic "orders" and writes topic "invoices" in transactions. If
// the program committed offsets after a transaction instead, transform/killed-after-end would fail:
// "doubled 10 of 70".
func ExampleCheck_transform() {
	_ = func(t *testing.T) {
		kafkatest.Check(t, kafkatest.Code{
			Topic: "orders", Output: "invoices",
			Transform: func(ctx context.Context, s *kafkatest.Server, id string, transform func(int32, int64) (record.Record, error)) error {
				cluster, err := remote.Open(ctx, remote.Config{Brokers: s.Addrs(), Dial: s.Dial})
				if err != nil {
					return err
				}
				defer cluster.Close()
				c, err := consumer.New(cluster, consumer.Config{Group: "billing", Topics: []string{"orders"}})
				if err != nil {
					return err
				}
				defer c.Close()
				p, err := producer.New(cluster, producer.Config{TransactionalID: id})
				if err != nil {
					return err
				}
				defer p.Close()
				return consumer.Transform(ctx, c, p, func(r record.Record, emit func(record.Record)) error {
					out, err := transform(r.Partition, r.Offset)
					if err == nil {
						emit(out)
					}
					return err
				})
			},
		})
	}
}

// A leader loses power and its unsynced data. Acknowledged records are on the other replicas.
func ExampleServer_KillBroker() {
	var p program
	defer p.end()
	s := kafkatest.New(&p, kafkatest.Config{Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})
	s.Fill("orders", record.String("orders", "", "paid"))
	gone := s.Leader("orders", 0)
	s.KillBroker(gone)
	fmt.Println(s.Leader("orders", 0) != gone, len(s.Topic("orders")))
	s.StartBroker(gone)
	s.WaitISR("orders", 0, 1, 2, 3)
	// Output: true 1
}
