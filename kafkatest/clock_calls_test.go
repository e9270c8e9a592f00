package kafkatest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// Each method of a Server, and of the values it returns, works outside the bubble, or fails with
// the alternative.
func TestEveryMethodWorksOutsideOfTheBubble(t *testing.T) {
	s := New(t, Config{Clock: true, TLS: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})
	plain := New(t, Config{})
	tp := record.TopicPartition{Topic: "orders"}
	commit := func() {
		s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
			_, err := c.CommitOffsets(ctx, group.CommitRequest{Group: "g", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: 1}}})
			require.NoError(t, err)
		})
	}
	ask := func() { // every broker still serves after the calls
		tlsed, err := s.DialTLS(s.TLS("alice"))(t.Context(), "tcp", s.Addr(1))
		require.NoError(t, err)
		defer tlsed.Close()
		req := kmsg.NewPtrMetadataRequest()
		(&wire{t: t, conn: tlsed}).ask(req)
	}
	var link *Link
	var fault *Injected
	inOrder := []struct {
		name string
		call func()
	}{
		{"Server.Addrs", func() { require.Len(t, s.Addrs(), 3) }},
		{"Server.Addr", func() { require.Equal(t, s.Addrs()[2], s.Addr(3)) }},
		{"Server.Now", func() { require.False(t, s.Now().IsZero()) }},
		{"Server.TLS", func() { require.Len(t, s.TLS("alice").Certificates, 1) }},
		{"Server.DialTLS", ask},
		{"Server.Dial", func() {
			nc, err := s.Dial(t.Context(), "tcp", s.Addr(2))
			require.NoError(t, err)
			nc.Close()
		}},
		{"Server.Fill", func() { s.Fill("orders", record.String("orders", "", "paid")) }},
		{"Server.Topic", func() { require.Len(t, s.Topic("orders"), 1) }},
		{"Server.WaitRecords", func() { require.Len(t, s.WaitRecords("orders", 1), 1) }},
		{"Server.Inside", commit},
		{"Server.WaitCommitted", func() { s.WaitCommitted("g", tp, 1) }},
		{"Server.WaitGroup", func() { s.WaitGroup("g", func(i group.Info) bool { return i.Offsets[tp].Offset == 1 }) }},
		{"Server.Coordinator", func() { require.Positive(t, s.Coordinator("g")) }},
		{"Server.Leader", func() { require.Positive(t, s.Leader("orders", 0)) }},
		{"Server.WaitISR", func() { s.WaitISR("orders", 0, 1, 2, 3) }},
		{"Server.MoveLeader", func() { s.MoveLeader("orders", 0, 3); require.Equal(t, int32(3), s.Leader("orders", 0)) }},
		{"Server.ShuffleLeaders", func() { require.Equal(t, 1, s.ShuffleLeaders("orders")) }},
		{"Server.Around", func() { link = s.Around(3) }},
		{"Server.OneWay", func() { s.OneWay(1, 2) }},
		{"Server.Between", func() { s.Between(1, 2) }},
		{"Link.Cut", func() { link.Cut() }},
		{"Server.Advance", func() { s.Advance(time.Minute) }},
		{"Link.Pause", func() { s.WaitISR("orders", 0, 1, 2); link.Pause() }},
		{"Link.Slow", func() { link.Slow(time.Millisecond) }},
		{"Link.String", func() { require.Equal(t, "1→3, 2→3, 3→1, 3→2", s.Around(3).String()) }},
		{"Link.Mend", func() { link.Mend(); s.WaitISR("orders", 0, 1, 2, 3) }},
		{"Server.Fault", func() { fault = s.Fault(Fault{APIs: []kafka.Key{kafka.Metadata}, Hold: true, Times: Always}) }},
		{"Injected.Wait", func() {
			go ask()
			fault.Wait(1)
		}},
		{"Injected.Hits", func() { require.Equal(t, 1, fault.Hits()) }},
		{"Injected.Release", func() { fault.Release() }},
		{"Server.WaitRequests", func() { s.WaitRequests(2, Answered(kafka.Metadata)) }},
		{"Server.Requests", func() { require.NotEmpty(t, s.Requests()) }},
		{"Injected.Remove", func() { fault.Remove() }},
		{"Server.WaitUntil", func() { require.NoError(t, s.WaitUntil(t.Context(), func() bool { return len(s.Requests()) > 0 })) }},
		{"Server.Observe", func() {
			var seen atomic.Int32
			stop := s.Observe(func(*kafka.Exchange) { seen.Add(1) })
			ask()
			stop()
			require.Equal(t, int32(1), seen.Load())
		}},
		{"Server.StopBroker", func() { s.StopBroker(2) }},
		{"Server.StartBroker", func() { s.StartBroker(2) }},
		{"Server.KillBroker", func() { s.KillBroker(2); s.StartBroker(2) }},
		{"Server.AddBroker", func() { require.Equal(t, int32(4), s.AddBroker("")) }},
		{"Server.AddBrokerID", func() { s.AddBrokerID(7, "") }},
		{"Server.RemoveBroker", func() { s.RemoveBroker(7); require.Len(t, s.Addrs(), 4) }},
		{"Server.Restart", func() { s.Restart(); require.Len(t, s.Topic("orders"), 1) }},
		{"Server.Timeline", func() { require.Contains(t, s.Timeline(), "the test: Restart") }},
		{"Server.WriteTimeline", func() { require.NoError(t, s.WriteTimeline(io.Discard)) }},
		{"Server.Cluster", func() { require.NotNil(t, plain.Cluster()) }}, // see TestFailuresInTheBubbleFailTheTest
	}
	called := map[string]bool{}
	for _, c := range inOrder {
		called[c.name] = true
		c.call()
	}
	ask()
	for _, of := range []reflect.Type{reflect.TypeFor[*Server](), reflect.TypeFor[*Injected](), reflect.TypeFor[*Link]()} {
		for i := range of.NumMethod() {
			require.True(t, called[of.Elem().Name()+"."+of.Method(i).Name], "%v has %s, which nobody has called", of, of.Method(i).Name)
		}
	}
}

// Functions that a test passes to a server run outside the bubble. There they may wait for the
// test and use the server.
func TestFunctionsOfTheTestRunOutsideOfTheBubble(t *testing.T) {
	outside := make(chan string) // each sender waits for the test
	var s *Server
	note := func(what string) {
		if inBubble() {
			t.Error(what, " is called in the bubble")
		}
		s.Requests()
		outside <- what
	}
	s = New(t, Config{Clock: true, Intercept: noting{func(what string) { note(what) }}})
	s.Observe(func(*kafka.Exchange) { note("Observe") })
	s.Fault(Fault{Match: func(*kafka.Exchange) bool { note("Match"); return true }, Edit: func(kmsg.Request, kmsg.Response) { note("Edit") }})
	s.Fault(Fault{Times: 1, Decide: func(*kafka.Exchange) *Effect {
		note("Decide")
		return &Effect{Respond: func(kmsg.Request, kmsg.Response) { note("Respond") }}
	}})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		dial(t, s).ask(kmsg.NewPtrApiVersionsRequest())
	}()
	var all []string
	for range 8 {
		s.Advance(0) // does not wait for them
		s.Addrs()
		all = append(all, <-outside)
	}
	<-answered
	require.ElementsMatch(t, []string{"Before", "Match", "Decide", "Respond", "Edit", "own Edit", "After", "Observe"}, all)
}

// noting is an interceptor that reports its calls.
type noting struct{ note func(string) }

func (n noting) Before(*kafka.Exchange) kafka.Action {
	n.note("Before")
	released := make(chan struct{})
	close(released)
	return kafka.Action{Holds: []<-chan struct{}{released}, Edit: func(kmsg.Request, kmsg.Response) { n.note("own Edit") }}
}

func (n noting) After(*kafka.Exchange) { n.note("After") }

// An interceptor may wait, also for steps of the test that come after a move of the clock.
func TestAdvanceDoesNotWaitForAnInterceptorThatWaits(t *testing.T) {
	for name, waits := range map[string]func(in *waiting){
		"in Before": func(in *waiting) { in.before = make(chan struct{}) },
		"by a hold": func(in *waiting) { in.hold = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			in := &waiting{came: make(chan struct{}, 1)}
			waits(in)
			s := New(t, Config{Clock: true, Intercept: in})
			w, req := dial(t, s), kmsg.NewPtrApiVersionsRequest()
			w.send(req)
			<-in.came
			s.Advance(time.Hour)
			require.Zero(t, len(s.WaitRequests(0, Answered(kafka.ApiVersions))))
			for _, c := range []chan struct{}{in.before, in.hold} {
				if c != nil {
					close(c)
				}
			}
			w.receive(req)
		})
	}
}

type waiting struct {
	came         chan struct{}
	before, hold chan struct{}
}

func (in *waiting) Before(*kafka.Exchange) (a kafka.Action) {
	in.came <- struct{}{}
	if in.before != nil {
		<-in.before
	}
	if in.hold != nil {
		a.Holds = append(a.Holds, in.hold)
	}
	return a
}

func (*waiting) After(*kafka.Exchange) {}

// Producers and consumers in process run in the bubble. The server can be used there too.
func TestInsideIsWhereTheClusterIs(t *testing.T) {
	for name, cfg := range map[string]Config{"clock": {Clock: true}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			cfg.Topics = map[string]int{"orders": 1}
			s := New(t, cfg)
			s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
				require.Equal(t, cfg.Clock, inBubble())
				require.Equal(t, c, map[bool]func() *strata.Cluster{true: s.cluster, false: s.Cluster}[cfg.Clock]())
				p, err := producer.New(c, producer.Config{})
				require.NoError(t, err)
				_, err = p.Send(ctx, record.String("orders", "", "paid"))
				require.NoError(t, err)
				require.NoError(t, p.Close())
				in, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"orders"}})
				require.NoError(t, err)
				b, err := in.Poll(ctx)
				require.NoError(t, err)
				require.NotEmpty(t, b.Offsets())
				require.NoError(t, in.Close())
				require.Len(t, s.Topic("orders"), 1)
				s.Fill("orders", record.String("orders", "", "paid again"))
				if cfg.Clock {
					_, err := s.Dial(ctx, "tcp", s.Addrs()[0])
					require.ErrorIs(t, err, errSocketInside)
					before := time.Now()
					s.Advance(time.Hour)
					require.GreaterOrEqual(t, time.Since(before), time.Hour)
				}
			})
			require.Len(t, s.Topic("orders"), 2)
		})
	}
	s := New(t, Config{Clock: true, Pipe: true})
	s.Inside(t.Context(), func(context.Context, *strata.Cluster) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
		require.NoError(t, err)
		defer cl.Close()
		require.NoError(t, cl.Ping(context.Background())) // a client in the bubble
	})
}

func (s *Server) cluster() *strata.Cluster { return s.clock.server.Cluster() }

func TestClocksThatMakeNoSenseAreRefused(t *testing.T) {
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Clock: true}) }), "kafkatest: Config.Clock needs a *testing.T, as testing/synctest does: a *kafkatest.fakeT is none")
	f = &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Pipe: true}).Advance(time.Second) }), "kafkatest: Advance: Config.Clock is not set")
	f = &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Pipe: true}).Inside(t.Context(), nil) }), "kafkatest: Inside: ctx or f is nil")
	f = &fakeT{}
	var nobody context.Context
	require.Contains(t, f.run(func() { New(f, Config{Pipe: true}).Inside(nobody, func(context.Context, *strata.Cluster) {}) }), "kafkatest: Inside: ctx or f is nil")
	code := Code{Produce: func(context.Context, *Server, []record.Record) error { return nil }, Config: Config{Clock: true}}
	require.ErrorContains(t, code.complete(), "Clock")
}

// failing names the variable of a process whose tests in failures run and fail.
const failing = "KAFKATEST_CLOCK_FAILS"

// failures are tests that fail, and their messages.
var failures = []struct {
	name string
	says string
	run  func(*testing.T)
}{
	{"cluster", "kafkatest: Cluster: with Config.Clock the cluster can be used in its bubble only: s.Inside(t.Context(), ", func(t *testing.T) { New(t, Config{Clock: true}).Cluster() }},
	{"in a bubble", "kafkatest: Config.Clock in a testing/synctest bubble, which has a clock: leave it out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { New(t, Config{Clock: true}) })
	}},
	{"in another bubble", "kafkatest: a Server with Config.Clock is used in a testing/synctest bubble that is not its own", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		synctest.Test(t, func(t *testing.T) { s.Now() })
	}},
	{"in a cleanup", "kafkatest: Config.Clock while the cleanups of the test run", func(t *testing.T) {
		t.Cleanup(func() { New(t, Config{Clock: true}) })
	}},
	{"backwards", "kafkatest: Advance: -1s is negative", func(t *testing.T) { New(t, Config{Clock: true}).Advance(-time.Second) }},
	{"too far", "it is later than the year 2200", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		for {
			s.Advance(100 * 365 * 24 * time.Hour)
		}
	}},
	{"too long", "of real time are over (Config.WaitTimeout), and the clock has been moved by ", func(t *testing.T) {
		s := busy(t, Config{WaitTimeout: 300 * time.Millisecond})
		defer s.Now() // the server still works
		s.Advance(century)
	}},
	{"too long, inside", "of real time are over (Config.WaitTimeout), and the clock has been moved by ", func(t *testing.T) {
		s := busy(t, Config{WaitTimeout: 300 * time.Millisecond})
		s.Inside(t.Context(), func(context.Context, *strata.Cluster) {
			s.Advance(century)
			t.Log("panic: it goes on")
		})
	}},
	{"no start", "kafkatest: start: ", func(t *testing.T) { New(t, Config{Clock: true, Topics: map[string]int{"a/b": 1}}) }},
	{"no address", "kafkatest: start: no address", func(t *testing.T) {
		New(t, Config{Clock: true, Listen: func(int32) (net.Listener, error) { return nil, errors.New("no address") }})
	}},
	{"call", "kafkatest: there is no broker 7", func(t *testing.T) { New(t, Config{Clock: true}).Addr(7) }},
	{"wait", "kafkatest: waiting for 1 requests: context deadline exceeded; there are 0", func(t *testing.T) {
		New(t, Config{Clock: true, WaitTimeout: 20 * time.Millisecond}).WaitRequests(1, Answered(kafka.Produce))
	}},
	{"predicate", "the predicate fails", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		defer s.Now() // the server still works
		s.WaitGroup("g", func(group.Info) bool { require.Fail(t, "the predicate fails"); return true })
	}},
	{"inside", "it fails inside", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		defer s.Now()
		s.Inside(t.Context(), func(context.Context, *strata.Cluster) { require.Fail(t, "it fails inside") })
	}},
	{"call inside", "kafkatest: there is no broker 9", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		s.Inside(t.Context(), func(context.Context, *strata.Cluster) { s.Addr(9) })
	}},
	{"decided", "kafkatest: what Decide returned: fault: no effect", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		s.Fault(Fault{Decide: func(*kafka.Exchange) *Effect { return &Effect{} }})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.RequestRetries(0))
		require.NoError(t, err)
		defer cl.Close()
		_ = cl.Ping(t.Context())
	}},
	{"left inside", "kafkatest: what Server.Inside has begun is left in the bubble of the server", func(t *testing.T) {
		New(t, Config{Clock: true}).Inside(t.Context(), func(_ context.Context, c *strata.Cluster) {
			go func() { <-make(chan struct{}) }()
		})
	}},
	{"stuck", "kafkatest: the time of the server stands still: a goroutine in its bubble waits for something outside, for example for a context other than the one that Inside passed to its function:\n", func(t *testing.T) {
		s := New(t, Config{Clock: true})
		never := make(chan struct{})
		t.Cleanup(func() { close(never) })
		s.Inside(t.Context(), func(context.Context, *strata.Cluster) { <-never })
	}},
	{"after its end", "kafkatest: the test of this Server has ended", func(t *testing.T) {
		var s *Server
		t.Cleanup(func() { s.Topic("orders") })
		s = New(t, Config{Clock: true})
	}},
	{"restart after its end", "kafkatest: the test of this Server has ended", func(t *testing.T) {
		var s *Server
		t.Cleanup(func() { s.Restart() })
		s = New(t, Config{Clock: true})
	}},
}

// Each failure fails its own test, with a message, and no other test.
func TestFailuresInTheBubbleFailTheTest(t *testing.T) {
	if os.Getenv(failing) != "" {
		for _, f := range failures {
			t.Run(f.name, f.run)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.timeout=1m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), failing+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	sections := regexp.MustCompile(`(?m)^=== RUN   `).Split(string(out), -1)
	said := map[string]string{}
	for _, section := range sections[1:] {
		name, text, _ := strings.Cut(section, "\n")
		said[name] = text
	}
	for _, f := range failures {
		name := t.Name() + "/" + strings.ReplaceAll(f.name, " ", "_")
		require.Contains(t, said[name], f.says, f.name)
		require.Contains(t, string(out), "--- FAIL: "+name+" ", f.name)
	}
	require.NotContains(t, string(out), "panic: ")
	require.Contains(t, said[t.Name()+"/stuck"], "clock_calls_test.go:", "who waits is named")
}
