package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// client returns a franz-go client of s. The end of the test closes it.
func client(t testing.TB, s *Server, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(10 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond })}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// consume polls until it has n records.
func consume(t testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	ctx := testContext(t)
	var got []*kgo.Record
	for len(got) < n {
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err())
		got = append(got, fs.Records()...)
	}
	return got
}

func TestClientsProduceAndConsume(t *testing.T) {
	for name, cfg := range map[string]Config{"tcp": {}, "pipe": {Pipe: true}, "directory": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			cfg.Topics = map[string]int{"a": 3}
			s := New(t, cfg)
			cl := client(t, s, kgo.ConsumeTopics("a"))
			for i := range 100 {
				r := &kgo.Record{Topic: "a", Key: []byte(fmt.Sprint(i)), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}
				require.NoError(t, cl.ProduceSync(testContext(t), r).FirstErr())
			}
			s.Fill("a", record.String("a", "last", "v").To(2))
			got := consume(t, cl, 101)
			require.Len(t, got, 101)
			stored := s.WaitRecords("a", 101)
			require.Len(t, stored, 101)
			h, _ := stored[0].Header("h")
			require.Equal(t, "x", string(h))
		})
	}
}

func TestIdempotentProducerDoublesNothingWhenAnswersAreLost(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 2}})
	cut := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Skip: 3, Times: 10, Close: true, AfterApply: true})
	cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.MaxBufferedRecords(100), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	var failed atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Add(1)
		cl.Produce(testContext(t), &kgo.Record{Key: []byte(fmt.Sprint(i % 2)), Value: []byte(fmt.Sprint(i))}, func(_ *kgo.Record, err error) {
			defer wg.Done()
			if err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	cut.Wait(10)
	last := map[int32]int{0: -1, 1: -1}
	got := s.Topic("a")
	require.Len(t, got, 1000)
	for _, r := range got {
		var i int
		fmt.Sscan(string(r.Value), &i)
		require.Greater(t, i, last[r.Partition], "reordered")
		last[r.Partition] = i
	}
}

func TestConnectionCutBeforeServingLosesTheRequest(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("1")).FirstErr())
	cut := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Close: true})
	require.Error(t, cl.ProduceSync(testContext(t), kgo.StringRecord("2")).FirstErr())
	require.Equal(t, 1, cut.Hits())
	require.Len(t, s.Topic("a"), 1)
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("3")).FirstErr())
	require.Len(t, s.Topic("a"), 2)
}

func TestInjectedErrorReachesTheClientAndNothingIsWritten(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1, "b": 1}})
	cl := client(t, s)
	fault := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Topic: "a", Code: kafka.InvalidRecord})
	rs := cl.ProduceSync(testContext(t), &kgo.Record{Topic: "a", Value: []byte("x")}, &kgo.Record{Topic: "b", Value: []byte("x")})
	for _, r := range rs {
		if r.Record.Topic == "a" {
			require.ErrorIs(t, r.Err, kerr.InvalidRecord)
		} else {
			require.NoError(t, r.Err)
		}
	}
	fault.Wait(1)
	require.Empty(t, s.Topic("a"))
	require.Len(t, s.Topic("b"), 1)
}

func TestFetchErrorHitsOneTopicOfASession(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1, "b": 1}})
	cl := client(t, s, kgo.ConsumeTopics("a", "b"))
	s.Fill("a", record.String("a", "", "1"))
	s.Fill("b", record.String("b", "", "1"))
	consume(t, cl, 2)
	fault := s.Fault(Fault{APIs: []kafka.Key{kafka.Fetch}, Topic: "a", Code: kafka.UnknownServerError})
	fault.Wait(1)
	ctx := testContext(t)
	for {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			require.Equal(t, "a", errs[0].Topic)
			require.ErrorIs(t, errs[0].Err, kerr.UnknownServerError)
			break
		}
	}
	s.Fill("b", record.String("b", "", "2"))
	require.Equal(t, "2", string(consume(t, cl, 1)[0].Value))
}

func TestLostRequestAndReplyLeaveTheConnectionOpen(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	for _, f := range []Fault{{DropRequest: true}, {DropReply: true}} {
		cl := client(t, s, kgo.RequestTimeoutOverhead(100*time.Millisecond), kgo.RequestRetries(0))
		require.NoError(t, cl.Ping(testContext(t)))
		f.APIs = []kafka.Key{kafka.InitProducerID}
		fault := s.Fault(f)
		_, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(testContext(t), cl)
		require.Error(t, err)
		require.Equal(t, 1, fault.Hits())
		_, err = kmsg.NewPtrInitProducerIDRequest().RequestWith(testContext(t), cl)
		require.NoError(t, err)
	}
}

func TestHeldRequestWaitsForRelease(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	cl := client(t, s, kgo.DefaultProduceTopic("a"))
	held := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Hold: true})
	done := make(chan error, 1)
	cl.Produce(testContext(t), kgo.StringRecord("x"), func(_ *kgo.Record, err error) { done <- err })
	held.Wait(1)
	require.Empty(t, s.Topic("a"))
	require.Empty(t, done)
	held.Release()
	require.NoError(t, <-done)
	require.Len(t, s.Topic("a"), 1)
}

// throttles collects the throttle times that a client receives.
type throttles struct{ told chan time.Duration }

func (h *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	select {
	case h.told <- d:
	default:
	}
}

func TestThrottlingIsSeen(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	hook := &throttles{told: make(chan time.Duration, 1)}
	cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.WithHooks(hook))
	s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Throttle: 25 * time.Millisecond})
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())
	require.Equal(t, 25*time.Millisecond, <-hook.told)
}

func TestAnswersCanBeEditedAndMadeUp(t *testing.T) {
	s := New(t, Config{})
	cl := client(t, s)
	s.Fault(Fault{APIs: []kafka.Key{kafka.InitProducerID}, Edit: func(_ kmsg.Request, resp kmsg.Response) {
		resp.(*kmsg.InitProducerIDResponse).ProducerID = 4711
	}})
	got, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(testContext(t), cl)
	require.NoError(t, err)
	require.Equal(t, int64(4711), got.ProducerID)
	s.Fault(Fault{APIs: []kafka.Key{kafka.InitProducerID}, Respond: func(_ kmsg.Request, resp kmsg.Response) {
		resp.(*kmsg.InitProducerIDResponse).ProducerID = 4712
	}})
	got, err = kmsg.NewPtrInitProducerIDRequest().RequestWith(testContext(t), cl)
	require.NoError(t, err)
	require.Equal(t, int64(4712), got.ProducerID)
}

func TestRequestsAreRemembered(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.ClientID("me"))
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())
	x := s.WaitRequests(1, Answered(kafka.Produce))[0]
	require.Equal(t, "me", x.ClientID)
	require.Empty(t, Codes(x.Response))
	require.False(t, x.Answered.Before(x.Received))
	all := s.Requests()
	require.Equal(t, kafka.ApiVersions, kafka.Key(all[0].Key))
	for i := range all[1:] {
		require.False(t, all[i+1].Received.Before(all[i].Received))
	}
}

func TestReleaseIsWhatIsAdvertised(t *testing.T) {
	for _, c := range []struct {
		cfg        Config
		produce    int16
		identifies bool
	}{{Config{Release: Kafka2_0}, 6, true}, {Config{Release: Redpanda24}, 7, true}, {Config{}, 13, true},
		{Config{VersionCaps: map[kafka.Key]int16{kafka.InitProducerID: kafka.NotServed}}, 13, false}} {
		c.cfg.Topics = map[string]int{"a": 1}
		s := New(t, c.cfg)
		cl := client(t, s, kgo.ConsumeTopics("a"), kgo.DefaultProduceTopic("a"), kgo.DisableIdempotentWrite())
		versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(testContext(t), cl)
		require.NoError(t, err)
		top := map[int16]int16{}
		for _, k := range versions.ApiKeys {
			top[k.ApiKey] = k.MaxVersion
		}
		require.Equal(t, c.produce, top[int16(kafka.Produce)])
		_, identifies := top[int16(kafka.InitProducerID)]
		require.Equal(t, c.identifies, identifies)
		require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr())
		consume(t, cl, 1)
	}
}

func TestTopicsComeIntoBeingOnlyIfAllowed(t *testing.T) {
	for _, auto := range []bool{false, true} {
		s := New(t, Config{AutoCreate: auto})
		cl := client(t, s, kgo.DefaultProduceTopic("new"), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
		err := cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr()
		if auto {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
		}
	}
}

func TestClientSurvivesARestart(t *testing.T) {
	for name, cfg := range map[string]Config{"tcp": {}, "pipe": {Pipe: true}, "directory": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			cfg.Topics = map[string]int{"a": 1}
			s := New(t, cfg)
			cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.ConsumeTopics("a"))
			require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("1")).FirstErr())
			addrs := s.Addrs()
			s.Restart()
			require.Equal(t, addrs, s.Addrs())
			require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("2")).FirstErr())
			require.Len(t, consume(t, cl, 2), 2)
			require.Len(t, s.Topic("a"), 2)
		})
	}
}

func TestDiskFaultReachesTheClientAndHeals(t *testing.T) {
	fs := vfs.Mem()
	s := New(t, Config{FS: fs, Topics: map[string]int{"a": 1}})
	cl := client(t, s, kgo.DefaultProduceTopic("a"), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("1")).FirstErr())
	remove := fs.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Err: errors.New("disk full")})
	require.ErrorIs(t, cl.ProduceSync(testContext(t), kgo.StringRecord("2")).FirstErr(), kerr.KafkaStorageError)
	remove()
	require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("3")).FirstErr())
	require.Len(t, s.Topic("a"), 2)
}

func TestServersEndWithClientsStillConnectedAndRequestsHeld(t *testing.T) {
	var cl *kgo.Client
	f := &fakeT{}
	require.Empty(t, f.run(func() {
		s := New(f, Config{Topics: map[string]int{"a": 1}})
		cl = client(t, s, kgo.DefaultProduceTopic("a"), kgo.ConsumeTopics("a"))
		if err := cl.Ping(context.Background()); err != nil {
			t.Error(err)
		}
		held := s.Fault(Fault{APIs: []kafka.Key{kafka.Produce}, Hold: true})
		cl.Produce(context.Background(), kgo.StringRecord("x"), nil)
		held.Wait(1)
	}))
	require.Empty(t, f.log)
}

func TestHundredServersSideBySide(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			f := &fakeT{}
			said := f.run(func() {
				s := New(f, Config{Pipe: i%2 == 0, Topics: map[string]int{"a": 1}})
				cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.DefaultProduceTopic("a"), kgo.ConsumeTopics("a"))
				if err != nil {
					t.Error(err)
					return
				}
				defer cl.Close()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
					t.Error(err)
				}
				if rs := cl.PollFetches(ctx).Records(); len(rs) != 1 || string(rs[0].Value) != fmt.Sprint(i) {
					t.Errorf("server %d: %v", i, rs)
				}
			})
			if said != "" {
				t.Error(said)
			}
		})
	}
	wg.Wait()
}

// sleepOr sleeps, or returns true as soon as stop is closed.
func sleepOr(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return true
	case <-time.After(d):
		return false
	}
}

func TestFaultsComeAndGoWhileClientsWork(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 4}})
	stop := make(chan struct{})
	var chaos sync.WaitGroup
	for _, f := range []Fault{{Close: true}, {Close: true, AfterApply: true}, {Code: kafka.NotLeaderOrFollower}, {Delay: time.Millisecond}, {Hold: true}} {
		f.APIs = []kafka.Key{kafka.Produce, kafka.Fetch}
		chaos.Go(func() {
			for {
				j := s.Fault(f)
				ended := sleepOr(stop, 5*time.Millisecond)
				j.Remove()
				// without this pause every request would meet a fault
				if ended || sleepOr(stop, 25*time.Millisecond) {
					return
				}
			}
		})
	}
	const clients, each = 4, 50
	var produced sync.WaitGroup
	for range clients {
		cl := client(t, s, kgo.DefaultProduceTopic("a"))
		produced.Go(func() {
			for i := range each {
				if err := cl.ProduceSync(testContext(t), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	cl := client(t, s, kgo.ConsumeTopics("a"))
	ctx, got := testContext(t), 0
	for got < clients*each && ctx.Err() == nil {
		got += cl.PollFetches(ctx).NumRecords() // the client retries errors
	}
	produced.Wait()
	close(stop)
	chaos.Wait()
	require.Equal(t, clients*each, got)
	require.Len(t, s.Topic("a"), clients*each)
	s.Requests()
}
