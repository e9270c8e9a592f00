package kafkatest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/memnet"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

// Brokers use the listeners of Config.Listen, also after AddBrokerID and StartBroker.
func TestBrokersListenWhereTheTestSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		var mu sync.Mutex
		asked := map[int32]int{}
		s := New(t, Config{Brokers: 2, Topics: map[string]int{"a": 2}, Listen: func(broker int32) (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[broker]++
			return network.Listen("127.0.0.1:" + map[int32]string{1: "19092", 2: "29092", 7: "39092"}[broker])
		}})
		s.AddBrokerID(7, "")
		s.StopBroker(2)
		s.StartBroker(2)
		require.Equal(t, []string{"127.0.0.1:19092", "127.0.0.1:29092", "127.0.0.1:39092"}, s.Addrs())
		require.Equal(t, map[int32]int{1: 1, 2: 2, 7: 1}, asked)
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()[0]), kgo.Dialer(network.Dial))
		require.NoError(t, err)
		defer cl.Close()
		for p := range int32(2) {
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Partition: p}).FirstErr())
		}
	})
}

// Faults do not see requests that Config.Intercept answers. They see requests that it replaces,
// and its Edit runs last.
func TestOwnInterceptorComesBeforeTheFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &ownInterceptor{}
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1, "b": 1}, Intercept: own})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
		require.NoError(t, err)
		defer cl.Close()
		ask := func(topic string) *kmsg.ListOffsetsResponse {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID = -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic, rt.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{kmsg.NewListOffsetsRequestTopicPartition()}
			rt.Partitions[0].Timestamp, rt.Partitions[0].CurrentLeaderEpoch = -1, -1
			req.Topics = append(req.Topics, rt)
			resp, err := cl.Broker(1).Request(t.Context(), req)
			require.NoError(t, err)
			return resp.(*kmsg.ListOffsetsResponse)
		}
		fault := s.Fault(Fault{APIs: []kafka.Key{kafka.ListOffsets}, Topic: "b", Times: Always, Edit: func(_ kmsg.Request, resp kmsg.Response) {
			resp.(*kmsg.ListOffsetsResponse).ThrottleMillis = 1
		}})

		own.set(func(x *kafka.Exchange) kafka.Action {
			return kafka.Action{Respond: func(req kmsg.Request) kmsg.Response { return req.ResponseKind() }}
		})
		require.Empty(t, ask("b").Topics, "it answers")
		require.Zero(t, fault.Hits(), "the fault does not see what is answered")

		own.set(func(x *kafka.Exchange) kafka.Action {
			other := *x.Request.(*kmsg.ListOffsetsRequest)
			other.Topics = append([]kmsg.ListOffsetsRequestTopic(nil), other.Topics...)
			other.Topics[0].Topic = "b"
			return kafka.Action{Serve: &other, Edit: func(_ kmsg.Request, resp kmsg.Response) {
				r := resp.(*kmsg.ListOffsetsResponse)
				r.Topics[0].Partitions[0].Offset = 40 + int64(r.ThrottleMillis)
			}}
		})
		got := ask("a")
		require.Equal(t, "b", got.Topics[0].Topic, "another request is served")
		require.Equal(t, 1, fault.Hits(), "which the fault is about")
		require.Equal(t, int64(41), got.Topics[0].Partitions[0].Offset, "the fault's edit comes first")

		release := make(chan struct{})
		own.set(func(*kafka.Exchange) kafka.Action {
			<-release
			return kafka.Action{}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			ask("a")
		}()
		s.WaitRequests(1, func(x kafka.Exchange) bool { return kafka.Key(x.Key) == kafka.ListOffsets && x.Answered.IsZero() })
		synctest.Wait()
		close(release) // Before may wait, and the request is visible meanwhile
		<-done
		require.Positive(t, own.after.Load())
	})
}

type ownInterceptor struct {
	mu    sync.Mutex
	f     func(*kafka.Exchange) kafka.Action // for ListOffsets; nil does nothing
	after atomic.Int32
}

func (o *ownInterceptor) set(f func(*kafka.Exchange) kafka.Action) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.f = f
}

func (o *ownInterceptor) Before(x *kafka.Exchange) kafka.Action {
	o.mu.Lock()
	f := o.f
	o.mu.Unlock()
	if f == nil || kafka.Key(x.Key) != kafka.ListOffsets {
		return kafka.Action{}
	}
	return f(x)
}

func (o *ownInterceptor) After(*kafka.Exchange) { o.after.Add(1) }

// DiscardRecords of Config.Intercept holds, whatever faults add.
func TestOwnInterceptorDiscardsBesideFaults(t *testing.T) {
	in := testInterceptor()
	in.own = discarding{}
	in.inject(Fault{APIs: []kafka.Key{kafka.Produce}, Delay: time.Second})
	action := ask(in, kmsg.NewPtrProduceRequest())
	require.Equal(t, time.Second, action.Delay)
	require.True(t, action.DiscardRecords)
}

type discarding struct{}

func (discarding) Before(*kafka.Exchange) kafka.Action { return kafka.Action{DiscardRecords: true} }
func (discarding) After(*kafka.Exchange)               {}

// Settings under Kafka's names reach the brokers. Settings of share groups reach the share groups.
func TestSettingsOfBrokersReachThem(t *testing.T) {
	cfg := Config{Properties: map[string]string{"log.retention.ms": "60000"}, Topics: map[string]int{"a": 1}}
	cfg.Shares.MaxDeliveryCount = 7
	s := New(t, cfg)
	info, err := s.Cluster().Topic(t.Context(), "a")
	require.NoError(t, err)
	value, _ := info.Settings.Value("retention.ms")
	require.Equal(t, "60000", value)
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Properties: map[string]string{"no.such.setting": "1"}}) }), "no.such.setting")
	require.Contains(t, f.run(func() {
		New(f, Config{Shares: cfg.Shares, Pipe: true, Listen: func(int32) (net.Listener, error) { return nil, nil }})
	}), "Listen and Pipe")
}

// WaitUntil returns when its condition holds, on any goroutine, or when its context ends.
func TestWaitUntilDoesNotFailTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		seen := func() bool { return len(s.Requests()) > 0 }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, s.WaitUntil(ctx, seen), context.DeadlineExceeded)
		result := make(chan error, 1)
		go func() { result <- s.WaitUntil(t.Context(), seen) }()
		synctest.Wait()
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.Ping(t.Context()))
		require.NoError(t, <-result)
	})
}

// A client that looks for brokers names no topic, so a fault of a topic does not select its
// request.
func TestMetadataWithoutTopicsIsAboutNone(t *testing.T) {
	for want, topics := range map[bool][]kmsg.MetadataRequestTopic{true: nil, false: {}} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, topics
		f := Fault{Topic: "a"}
		require.Equal(t, want, f.selects(&kafka.Exchange{Key: int16(kafka.Metadata), Request: req}, targets(req), nil))
	}
	old := kmsg.NewPtrMetadataRequest()
	old.Topics = []kmsg.MetadataRequestTopic{}
	require.True(t, (&Fault{Topic: "a"}).selects(&kafka.Exchange{Key: int16(kafka.Metadata), Request: old}, targets(old), nil), "in version 0 that is all of them")
}

// Committed offsets have the time of their commit.
func TestCommitsTellTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 2}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.DisableAutoCommit())
		require.NoError(t, err)
		defer cl.Close()
		s.Fill("a", record.Record{Topic: "a", Value: []byte("v")})
		require.Equal(t, 1, cl.PollFetches(t.Context()).NumRecords())
		time.Sleep(time.Hour)
		require.NoError(t, cl.CommitUncommittedOffsets(t.Context()))
		info, err := s.Cluster().Group(t.Context(), "g")
		require.NoError(t, err)
		for _, o := range info.Offsets {
			if o.Offset < 0 {
				require.True(t, o.CommittedAt.IsZero())
			} else {
				require.Equal(t, time.Now().UnixMilli(), o.CommittedAt.UnixMilli())
			}
		}
	})
}

// A black hole acknowledges each produced record once, even if it is sent again, and keeps none.
// Groups advance past them. Records that the test itself writes are kept.
func TestBlackholeAcknowledgesAndKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Brokers: 2, Replicas: 2, Topics: map[string]int{"a": 1}, BlackholeProduce: true})
		opts := []kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.DefaultProduceTopic("a")}
		cl, err := kgo.NewClient(opts...)
		require.NoError(t, err)
		defer cl.Close()
		lost := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, DropReply: true})
		for i := range 100 {
			sent := cl.ProduceSync(t.Context(), kgo.SliceRecord(make([]byte, 10_000)))
			require.NoError(t, sent.FirstErr())
			require.EqualValues(t, i, sent[0].Record.Offset)
		}
		require.Equal(t, 1, lost.Hits())
		txn, err := kgo.NewClient(append(opts, kgo.TransactionalID("x"))...)
		require.NoError(t, err)
		defer txn.Close()
		for range 2 {
			require.NoError(t, txn.BeginTransaction())
			require.NoError(t, txn.ProduceSync(t.Context(), kgo.StringRecord("gone")).FirstErr())
			require.NoError(t, txn.EndTransaction(t.Context(), kgo.TryCommit))
		}
		require.NoError(t, s.Cluster().TransactionCoordinator().WaitEnded(t.Context(), "x"))

		s.Fill("a", record.String("a", "", "kept"))
		group, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("a"), kgo.ConsumerGroup("g"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
		require.NoError(t, err)
		defer group.Close()
		got := group.PollFetches(t.Context()).Records()
		require.Len(t, got, 1)
		require.Equal(t, "kept", string(got[0].Value))
		require.EqualValues(t, 104, got[0].Offset)
		for range 2 {
			info, err := s.Cluster().Topic(t.Context(), "a")
			require.NoError(t, err)
			require.EqualValues(t, 105, info.Partitions[0].HighWatermark)
			require.Less(t, info.Partitions[0].SizeBytes, int64(10_000))
			require.Len(t, s.Topic("a"), 1)
			s.Restart()
		}
	})
}
