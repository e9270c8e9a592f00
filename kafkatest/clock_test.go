package kafkatest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// networks are the networks of a server with a clock of its own.
var networks = map[string]Config{
	"tcp":    {Clock: true},
	"pipe":   {Clock: true, Pipe: true},
	"listen": {Clock: true, Listen: func(int32) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }},
}

func onEachNetwork(t *testing.T, run func(*testing.T, Config)) {
	for name, cfg := range networks {
		t.Run(name, func(t *testing.T) { run(t, cfg) })
	}
}

func TestMemberExpiresWhenTheClockIsMoved(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic":     {kgo.SessionTimeout(25 * time.Minute)},
		"server side": {kgo.ServerSideBalancer()},
	} {
		session := 25 * time.Minute
		if name != "classic" {
			session = 45 * time.Second // the broker's default
		}
		t.Run(name, func(t *testing.T) {
			onEachNetwork(t, func(t *testing.T, cfg Config) {
				cfg.Topics = map[string]int{"orders": 2}
				s := New(t, cfg)
				opts := append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.InstanceID("worker-1"))
				cl, err := kgo.NewClient(opts...)
				require.NoError(t, err)
				s.Fill("orders", record.String("orders", "", "paid"))
				require.Len(t, cl.PollFetches(testContext(t)).Records(), 1)
				s.WaitGroup("billing", group.StableWith(1))
				cl.Close() // a static member does not leave

				begin := time.Now()
				s.Advance(session - 10*time.Second)
				require.Len(t, members(s), 1)
				s.Advance(20 * time.Second)
				require.Empty(t, members(s))
				require.Less(t, time.Since(begin), session/2)
			})
		})
	}
}

// members returns the current members of the group.
func members(s *Server) []group.MemberInfo {
	return s.WaitGroup("billing", func(group.Info) bool { return true }).Members
}

// A member that is to stay in the group has the time for a heartbeat.
func TestMemberThatIsGivenTimeStaysWhenAnotherExpires(t *testing.T) {
	s := New(t, Config{Clock: true, Topics: map[string]int{"orders": 2}})
	member := func(id string) *kgo.Client {
		return client(t, s, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.InstanceID(id), kgo.SessionTimeout(45*time.Second), kgo.HeartbeatInterval(5*time.Millisecond))
	}
	gone, stays := member("gone"), member("stays")
	s.WaitGroup("billing", func(g group.Info) bool {
		return group.StableWith(2)(g) && len(g.Members[0].Assignment) == 1 && len(g.Members[1].Assignment) == 1
	})
	gone.Close()
	heard := func() { // waits for a heartbeat of the present member, later than now
		now := s.Now()
		s.WaitRequests(1, func(x kafka.Exchange) bool {
			return Answered(kafka.Heartbeat)(x) && len(Codes(x.Response)) == 0 && x.Received.After(now)
		})
	}
	heard()
	for range 5 {
		s.Advance(10 * time.Second)
		heard()
	}
	info := s.WaitGroup("billing", group.StableWith(1))
	require.Equal(t, "stays", info.Members[0].InstanceID)
	require.Len(t, info.Members[0].Assignment, 2)
	s.Fill("orders", record.String("orders", "", "paid"))
	require.Len(t, consume(t, stays, 1), 1)
}

func TestRetentionPassesWhenTheClockIsMoved(t *testing.T) {
	s := New(t, Config{Clock: true, TopicConfigs: map[string]topic.Config{"orders": {Partitions: 1, Properties: map[string]string{"retention.ms": "604800000"}}}})
	cl := client(t, s, kgo.DefaultProduceTopic("orders"))
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("old")).FirstErr())
	s.Advance(6 * 24 * time.Hour)
	require.Len(t, s.Topic("orders"), 1)
	s.Advance(24*time.Hour + 10*time.Minute)
	require.Empty(t, s.Topic("orders"))
	require.NoError(t, cl.ProduceSync(testContext(t), &kgo.Record{Value: []byte("new"), Timestamp: s.Now()}).FirstErr())
	require.Equal(t, int64(1), s.Topic("orders")[0].Offset)
}

func TestTransactionTimesOutWhenTheClockIsMoved(t *testing.T) {
	s := New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}})
	cl := client(t, s, kgo.DefaultProduceTopic("orders"), kgo.TransactionalID("t"), kgo.TransactionTimeout(10*time.Minute))
	reader := client(t, s, kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, cl.BeginTransaction())
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("never")).FirstErr())
	s.Fill("orders", record.String("orders", "", "behind it"))
	open := func() (ids []string) {
		s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
			all, err := c.Transactions(ctx)
			require.NoError(t, err)
			for _, d := range all {
				if d.State.String() == "Ongoing" {
					ids = append(ids, d.ID)
				}
			}
		})
		return ids
	}
	s.Advance(9 * time.Minute)
	require.Equal(t, []string{"t"}, open())
	s.Advance(2 * time.Minute)
	require.Empty(t, open())
	require.Equal(t, "behind it", string(consume(t, reader, 1)[0].Value))
	require.Error(t, cl.EndTransaction(testContext(t), kgo.TryCommit))
}

// Long polls are answered and delays end, although no call moves the clock.
func TestTimeGoesOnByItself(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		cfg.Topics = map[string]int{"orders": 1}
		before := time.Now()
		s := New(t, cfg)
		require.False(t, s.Now().Before(before.Round(0)), "the server begins with real time")
		w := dial(t, s)
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 4, 60, 1, 1<<20
		rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		rt.Topic, rp.PartitionMaxBytes = "orders", 1<<20
		rt.Partitions = append(rt.Partitions, rp)
		fetch.Topics = append(fetch.Topics, rt)
		began := s.Now()
		w.ask(fetch)
		require.GreaterOrEqual(t, s.Now().Sub(began), 60*time.Millisecond)
		const slewed = 30 * time.Millisecond // the system clock may be adjusted by it
		require.Less(t, time.Until(s.Now()), slewed, "it is not faster than real time")
		s.Advance(time.Hour)
		require.GreaterOrEqual(t, s.Now().Sub(began), time.Hour+60*time.Millisecond)
		require.Less(t, time.Until(s.Now()), time.Hour+slewed)
	})
}

// Events that are due within one Advance happen at their own times, in order. They are complete
// when Advance returns.
func TestWhatIsDueHappensInOrderAndIsDoneWhenAdvanceReturns(t *testing.T) {
	s := New(t, Config{Clock: true})
	var told []time.Duration
	begin := s.Now()
	stop := s.Observe(func(x *kafka.Exchange) { told = append(told, x.Answered.Sub(begin).Round(time.Minute)) })
	for _, late := range []time.Duration{5 * time.Hour, time.Hour, 3 * time.Hour} {
		held := s.Fault(Fault{APIs: []kafka.Key{kafka.ApiVersions}, Delay: late})
		req := kmsg.NewPtrApiVersionsRequest()
		dial(t, s).send(req)
		held.Wait(1)
	}
	s.Advance(0)
	require.Empty(t, told)
	s.Advance(4 * time.Hour)
	require.Equal(t, []time.Duration{time.Hour, 3 * time.Hour}, told)
	s.Advance(2 * time.Hour)
	require.Equal(t, []time.Duration{time.Hour, 3 * time.Hour, 5 * time.Hour}, told)
	stop()
	require.Len(t, s.WaitRequests(3, Answered(kafka.ApiVersions)), 3)
}

func TestTrafficGoesOnWhileTheClockIsMoved(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		const producers, each = 4, 50
		cfg.Topics, cfg.Brokers = map[string]int{"orders": 3}, 3
		s := New(t, cfg)
		reader := client(t, s, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		var wg sync.WaitGroup
		for p := range producers {
			cl := client(t, s, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20))
			wg.Go(func() {
				for i := range each {
					value := fmt.Sprintf("%d %03d", p, i)
					if i%10 == 0 {
						value += strings.Repeat(" ", 900<<10)
					}
					if err := cl.ProduceSync(context.Background(), &kgo.Record{Partition: int32(i % 3), Value: []byte(value)}).FirstErr(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		var observed atomic.Int32
		s.Observe(func(*kafka.Exchange) { observed.Add(1) })
		written := make(chan struct{})
		go func() {
			defer close(written)
			wg.Wait()
		}()
		advanced := time.Duration(0)
		for done := false; !done; {
			select {
			case <-written:
				done = true
			default:
				s.Advance(time.Second)
				advanced += time.Second
			}
		}
		last := map[string]string{}
		for _, r := range consume(t, reader, producers*each) {
			p, i, _ := strings.Cut(strings.TrimSpace(string(r.Value)), " ")
			key := fmt.Sprint(r.Partition, " ", p)
			require.Less(t, last[key], i)
			last[key] = i
		}
		require.Len(t, s.Topic("orders"), producers*each)
		require.Greater(t, time.Until(s.Now()), advanced/2)
		require.Positive(t, observed.Load())
	})
}

func TestBrokersComeAndGoBesideTheirClock(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, cfg Config) {
		cfg.Topics, cfg.Brokers, cfg.Replicas = map[string]int{"orders": 3}, 3, 3
		cfg.Listen = nil // its addresses change
		s := New(t, cfg)
		cl := client(t, s, kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"))
		write := func(n int) {
			require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())
			require.Len(t, s.WaitRecords("orders", n), n)
		}
		write(1)
		s.KillBroker(2)
		_, err := s.Dial(t.Context(), "tcp", s.Addr(2))
		require.Error(t, err)
		s.Advance(time.Minute)
		write(2)
		s.StartBroker(2)
		s.WaitISR("orders", 0, 1, 2, 3)
		addrs := s.Addrs()
		s.Restart()
		require.Equal(t, addrs, s.Addrs())
		s.Advance(time.Minute)
		write(3)
		for read, ctx := 0, testContext(t); read < 3; { // it returns errors for closed connections
			read += cl.PollFetches(ctx).NumRecords()
			require.NoError(t, ctx.Err())
		}
	})
}

// A wait that runs during an Advance is no shorter than another one: its limit is real time.
func TestAdvanceEndsNoWaitBesideIt(t *testing.T) {
	s := New(t, Config{Clock: true, Topics: map[string]int{"orders": 1}})
	asked, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		s.WaitGroup("billing", func(i group.Info) bool {
			asked <- struct{}{}
			return len(i.Offsets) == 1
		})
	}()
	<-asked
	s.Advance(24 * time.Hour)
	s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
		offsets := map[record.TopicPartition]record.Committed{{Topic: "orders"}: {}}
		_, err := c.CommitOffsets(ctx, group.CommitRequest{Group: "billing", Generation: -1, Offsets: offsets})
		require.NoError(t, err)
	})
	<-ended
}

func TestContextsFromOutsideEndWaits(t *testing.T) {
	s := New(t, Config{Clock: true})
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan bool, 1)
	never := func() bool {
		select {
		case asked <- true:
		default:
		}
		return false
	}
	ended := make(chan error)
	go func() { ended <- s.WaitUntil(ctx, never) }()
	<-asked
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.WaitUntil(late, never), context.DeadlineExceeded)
	require.NoError(t, s.WaitUntil(late, func() bool { return len(s.Requests()) == 0 }), "asked before the end is looked at")
}
