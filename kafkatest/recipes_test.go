package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/record"
)

func TestLostReply(t *testing.T) {
	for written, opts := range map[int][]kgo.Opt{
		1: nil,                            // the broker recognises the producer's sequence number
		2: {kgo.DisableIdempotentWrite()}, // at least once, and here twice
	} {
		synctest.Test(t, func(t *testing.T) {
			s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 1}})
			lost := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, DropReply: true})
			cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))...)
			require.NoError(t, err)
			defer cl.Close()
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
			require.Equal(t, 1, lost.Hits())
			require.Len(t, s.Topic("orders"), written)
		})
	}
}

func TestSlowFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 1}})
		s.Fill("orders", record.String("orders", "", "paid"))
		s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Fetch}, Topic: "orders", Delay: 8 * time.Second})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumeTopics("orders"))
		require.NoError(t, err)
		defer cl.Close()

		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Zero(t, cl.PollFetches(ctx).NumRecords()) // the program does other work meanwhile
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.Equal(t, 1, cl.PollFetches(t.Context()).NumRecords())
		require.GreaterOrEqual(t, time.Since(begin), 8*time.Second) // of virtual time
	})
}

func TestRebalanceUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 6}})
		client := func(opts ...kgo.Opt) *kgo.Client {
			cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))...)
			require.NoError(t, err)
			return cl
		}
		var mu sync.Mutex // guards seen
		seen := map[string]int{}
		var wg sync.WaitGroup
		member := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				cl := client(kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
				defer cl.CloseAllowingRebalance()
				for ctx.Err() == nil {
					fs := cl.PollFetches(ctx)
					mu.Lock()
					fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
					mu.Unlock()
					// committed before the partitions may be revoked
					_ = cl.CommitRecords(context.WithoutCancel(ctx), fs.Records()...)
					cl.AllowRebalance()
				}
			})
			return cancel
		}
		p := client()
		defer p.Close()
		write := func(from, to int) {
			for i := from; i < to; i++ {
				p.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}, nil)
			}
		}

		write(0, 200)
		first := member()
		s.WaitGroup("billing", group.StableWith(1))
		write(200, 400)
		second := member() // six partitions become three and three
		s.WaitGroup("billing", group.StableWith(2))
		write(400, 600)
		first() // and six again
		s.WaitGroup("billing", group.StableWith(1))
		write(600, 800)
		require.NoError(t, p.Flush(t.Context()))
		all := func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == 800 }
		require.NoError(t, s.WaitUntil(t.Context(), all))
		second()
		wg.Wait()
		for value, times := range seen {
			require.Equal(t, 1, times, value) // committed records are not read again
		}
	})
}

func TestLeaveByInstanceID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 1}})
		opts := []kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial)}
		member, err := kgo.NewClient(append(opts, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
			kgo.InstanceID("worker-1"), kgo.SessionTimeout(25*time.Minute))...)
		require.NoError(t, err)
		s.WaitGroup("billing", group.StableWith(1))
		member.Close() // a static member does not leave the group
		s.WaitGroup("billing", group.StableWith(1))

		begin := time.Now()
		cl, err := kgo.NewClient(opts...)
		require.NoError(t, err)
		defer cl.Close()
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group = "billing"
		leave.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: kmsg.StringPtr("worker-1")}}
		left, err := leave.RequestWith(t.Context(), cl)
		require.NoError(t, err)
		require.Zero(t, left.ErrorCode)
		s.WaitGroup("billing", func(g group.Info) bool { return len(g.Members) == 0 })
		require.Less(t, time.Since(begin), time.Minute) // before its session ends
	})
}

func TestSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"orders": 1}})
		// The broker answers neither this request nor later ones on the connection.
		silent := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, DropRequest: true})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial),
			kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(3*time.Second))
		require.NoError(t, err)
		defer cl.Close()
		begin := time.Now()
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr())
		require.Equal(t, 1, silent.Hits())
		require.GreaterOrEqual(t, time.Since(begin), 5*time.Second) // the client's request timeout
		require.Len(t, s.Topic("orders"), 1)
	})
}

func TestMemberThatIsGoneExpires(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Clock: true, Topics: map[string]int{"orders": 2}})
	member := func(id string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
			kgo.InstanceID(id), kgo.SessionTimeout(25*time.Minute), kgo.HeartbeatInterval(10*time.Millisecond))
		require.NoError(t, err)
		return cl
	}
	gone, stays := member("gone"), member("stays")
	defer stays.Close()
	s.WaitGroup("billing", func(g group.Info) bool { // a partition each, so that no rebalance follows
		return group.StableWith(2)(g) && len(g.Members[0].Assignment) == 1 && len(g.Members[1].Assignment) == 1
	})
	gone.Close() // a static member does not leave the group

	heartbeat := func() { // waits for a heartbeat later than now
		now := s.Now()
		s.WaitRequests(1, func(x kafka.Exchange) bool {
			return kafkatest.Answered(kafka.Heartbeat)(x) && len(kafkatest.Codes(x.Response)) == 0 && x.Received.After(now)
		})
	}
	heartbeat()
	for range 2 { // less than a session each, so that a heartbeat fits in between
		s.Advance(13 * time.Minute)
		heartbeat()
	}
	g := s.WaitGroup("billing", group.StableWith(1))
	require.Equal(t, "stays", g.Members[0].InstanceID)
	require.Len(t, g.Members[0].Assignment, 2)
}

// A Container is a broker in this process with the methods of a container.
type Container struct {
	cluster *strata.Cluster
	server  *kafka.Server
	ln      net.Listener
	ended   chan error
}

// Run starts a broker. It ignores image.
func Run(ctx context.Context, image string) (*Container, error) {
	cluster, err := strata.Open(strata.Config{}) // in memory
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	c := &Container{cluster, kafka.NewServer(cluster, kafka.Config{}), ln, make(chan error, 1)}
	go func() { c.ended <- c.server.Serve(1, ln) }()
	return c, nil
}

// Brokers returns the addresses for clients.
func (c *Container) Brokers(ctx context.Context) ([]string, error) {
	return []string{c.ln.Addr().String()}, nil
}

// Terminate stops the broker and returns when its goroutines have ended.
func (c *Container) Terminate(ctx context.Context) error {
	err := c.server.Shutdown(ctx)
	if serr := <-c.ended; !errors.Is(serr, kafka.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return errors.Join(err, c.cluster.Close())
}

func ExampleRun() {
	ctx := context.Background()
	container, err := Run(ctx, "apache/kafka:4.3.0")
	if err != nil {
		panic(err)
	}
	defer container.Terminate(ctx)
	brokers, err := container.Brokers(ctx)
	if err != nil {
		panic(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("orders"))
	if err != nil {
		panic(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("paid")}).FirstErr(); err != nil {
		panic(err)
	}
	cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { fmt.Println(string(r.Value)) })
	// Output: paid
}
