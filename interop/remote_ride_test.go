package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/interop/apache"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// Clients of package remote while brokers of a real Kafka are killed and stopped.

// A partition may be silent for as long as Kafka needs to elect another leader, and for clientTime
// more. Kafka notices a killed broker 9 s after its last heartbeat (broker.session.timeout.ms), and
// needs about usualFailOver.
const (
	usualFailOver = 10 * time.Second
	clientTime    = 2 * time.Second
)

// A stream is what one client has seen of the records of a ride. Each partition has the values 0,
// 1, 2 and so on.
type stream struct {
	name     string
	anyOrder bool // a member of a share group gets records in any order, and again

	mu       sync.Mutex // guards the fields below
	next     [partitionsRidden]int
	seen     [partitionsRidden]map[int]bool // with anyOrder
	last     [partitionsRidden]time.Time
	silence  time.Duration // longest, of any partition
	repeated int
	wrong    []string
	failed   error // of the client
}

// add adds a record. The first silence of a partition begins with its first record.
func (s *stream) add(partition int32, value []byte) {
	n, err := strconv.Atoi(string(value))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at := s.last[partition]; !at.IsZero() {
		s.silence = max(s.silence, now.Sub(at))
	}
	s.last[partition] = now
	if s.seen[partition] == nil {
		s.seen[partition] = map[int]bool{}
	}
	switch {
	case err != nil:
		s.wrong = append(s.wrong, fmt.Sprintf("%q", value))
	case s.seen[partition][n]:
		s.repeated++
	case n != s.next[partition] && !s.anyOrder:
		s.wrong = append(s.wrong, fmt.Sprintf("partition %d: %d instead of %d", partition, n, s.next[partition]))
	}
	s.seen[partition][n] = true
	for s.seen[partition][s.next[partition]] {
		s.next[partition]++
	}
}

// has reports whether the stream has the first n values of each partition, or has failed.
func (s *stream) has(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return true
	}
	for _, next := range s.next {
		if next < n {
			return false
		}
	}
	return true
}

// end sets the error of the client.
func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
}

// TestRemoteRidesThroughKilledKafkas has clients of each kind work while the brokers of three are
// killed and stopped in turn, except the one with the only controller.
func TestRemoteRidesThroughKilledKafkas(t *testing.T) {
	if os.Getenv("STRATA_LONG") == "" {
		t.Skip("set STRATA_LONG, and STRATA_RIDE for another time than 1m")
	}
	t.Parallel()
	lasts := time.Minute
	if text := os.Getenv("STRATA_RIDE"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	brokers, k := startKafkas(t)
	c := connect(t, k)
	setUp := within(t)
	in, out := fresh("ride"), fresh("ride-out")
	for _, name := range []string{in, out} {
		cfg := topic.Config{Partitions: partitionsRidden, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"}}
		require.NoError(t, c.CreateTopic(setUp, name, cfg))
	}

	riding, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	start := func(s *stream, run func(context.Context, *stream) error) *stream {
		clients.Go(func() { s.end(run(riding, s)) })
		return s
	}
	group := func(protocol consumer.Protocol) func(context.Context, *stream) error {
		return func(ctx context.Context, s *stream) error { return rideGroup(ctx, c, in, s, protocol) }
	}
	streams := []*stream{
		start(&stream{name: "classic group"}, group(consumer.ProtocolClassic)),
		start(&stream{name: "consumer group"}, group(consumer.ProtocolConsumer)),
		start(&stream{name: "share group", anyOrder: true}, func(ctx context.Context, s *stream) error { return rideShare(ctx, c, in, s) }),
		start(&stream{name: "output of a transformer"}, func(ctx context.Context, s *stream) error { return rideFollow(ctx, c, out, s) }),
	}
	mirrored, copied := rideMirrors(t, c, in)
	streams = append(streams,
		start(&stream{name: "reader of a mirror"}, func(ctx context.Context, s *stream) error {
			return alongside(ctx, mirrored.Run, func(ctx context.Context) error { return rideFollow(ctx, mirrored.target, in, s) })
		}),
		start(&stream{name: "reader of a copy"}, func(ctx context.Context, s *stream) error {
			return alongside(ctx, copied.Run, func(ctx context.Context) error { return rideFollow(ctx, copied, in, s) })
		}))
	transformed := start(&stream{name: "transformer"}, func(ctx context.Context, _ *stream) error { return rideTransform(ctx, c, in, out) })
	sending, stopSending := context.WithCancel(riding)
	defer stopSending()
	acknowledged := &stream{name: "producer"}
	sent := make(chan int, 1)
	go func() {
		n, err := rideProduce(sending, c, in, acknowledged)
		acknowledged.end(err)
		sent <- n
	}()

	for _, s := range streams { // a new group has to be under way before its silence means anything
		began := time.Now()
		eventually(t, s.name+" has begun", func() bool { return s.has(1) })
		t.Logf("%s has begun after %v more", s.name, time.Since(began).Round(time.Millisecond))
	}
	outages, failOver := 0, usualFailOver
	for began := time.Now(); time.Since(began) < lasts; outages++ {
		failOver = max(failOver, outage(t, k, brokers, 1+outages%2, outages%4 < 2))
	}
	stopSending()
	n := <-sent
	arrived := func() bool {
		for _, s := range streams {
			if !s.has(n) {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(time.Minute); !arrived() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	clients.Wait()
	for _, s := range append(streams, acknowledged, transformed) {
		t.Logf("%s: %v of %d, %d repeated, longest silence %v, error %v", s.name, s.next, n, s.repeated, s.silence.Round(time.Millisecond), s.failed)
	}
	for _, s := range append(streams, acknowledged, transformed) {
		require.NoError(t, s.failed, s.name)
		require.True(t, s == transformed || s.has(n), "%s lacks records", s.name)
		require.Empty(t, s.wrong, s.name)
		require.LessOrEqual(t, s.silence, failOver+clientTime, s.name)
		if !s.anyOrder {
			require.Zero(t, s.repeated, s.name)
		}
	}
	require.Greater(t, outages, 1)
	t.Logf("%d outages, fail-over within %v, %d records", outages, failOver.Round(time.Millisecond), n*partitionsRidden)
}

// startKafkas starts three brokers with three replicas of each partition, until the end of the
// test. The first is the controller.
func startKafkas(t *testing.T) ([]*apache.Broker, target) {
	t.Helper()
	kit := kafkaKit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	brokers, err := kit.StartCluster(ctx, t.TempDir(), 3,
		"default.replication.factor=3", "min.insync.replicas=2", "offsets.topic.replication.factor=3",
		"transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
		"share.coordinator.state.topic.replication.factor=3", "share.coordinator.state.topic.min.isr=2")
	require.NoError(t, err)
	var addrs []string
	for _, b := range brokers {
		t.Cleanup(b.Stop)
		addrs = append(addrs, b.Addr)
	}
	k := target{kind: "kafka", addr: strings.Join(addrs, ",")}
	awaitCoordinators(t, k)
	return brokers, k
}

// outage kills or stops a broker, starts it again when all partitions have other leaders, and waits
// until it is in sync everywhere. It returns the time until Kafka had the other leaders.
func outage(t *testing.T, k target, brokers []*apache.Broker, i int, kill bool) (failOver time.Duration) {
	t.Helper()
	b, began := brokers[i], time.Now()
	if kill {
		b.Kill()
	} else {
		b.Stop()
	}
	adm := admin(t, target{kind: "kafka", addr: brokers[0].Addr})
	eventually(t, "all partitions have other leaders", func() bool {
		topics, err := adm.ListTopicsWithInternal(within(t))
		for _, found := range topics {
			for _, p := range found.Partitions {
				if p.Leader < 0 || int(p.Leader) == i+1 {
					return false
				}
			}
		}
		return err == nil
	})
	failOver = time.Since(began)
	time.Sleep(clientTime) // clients find the other leaders before this one is back
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, b.Restart(ctx))
	eventually(t, "all replicas are in sync", func() bool {
		topics, err := adm.ListTopicsWithInternal(within(t))
		if err != nil {
			return false
		}
		for _, found := range topics {
			for _, p := range found.Partitions {
				if len(p.ISR) < len(p.Replicas) {
					return false
				}
			}
		}
		return len(topics) > 0
	})
	return failOver
}

// rideProduce sends the values 0, 1, 2 and so on to each partition until ctx ends, and returns how
// many.
func rideProduce(ctx context.Context, c *remote.Cluster, name string, s *stream) (n int, err error) {
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := context.WithoutCancel(ctx)
	for ; ctx.Err() == nil; n++ {
		<-tick.C
		for partition := range int32(partitionsRidden) {
			p.SendAsync(last, record.String(name, "", strconv.Itoa(n)).To(partition), func(r record.Record, err error) {
				if err != nil {
					s.end(err)
					return
				}
				s.add(r.Partition, r.Value)
			})
		}
	}
	return n, errors.Join(p.Flush(last), p.Close())
}

// passing returns nil for an error of an outage, after which a client continues.
func passing(err error) error {
	if errors.Is(err, remote.ErrUnreachable) {
		return nil
	}
	return err
}

func rideGroup(ctx context.Context, c *remote.Cluster, name string, s *stream, protocol consumer.Protocol) error {
	m, err := consumer.New(c, consumer.Config{Group: fresh("ride"), Topics: []string{name}, Protocol: protocol})
	if err != nil {
		return err
	}
	for r, err := range m.Records(ctx) {
		if err == nil {
			s.add(r.Partition, r.Value)
		} else if err := passing(err); err != nil {
			return errors.Join(err, m.Close())
		}
	}
	return m.Close()
}

func rideShare(ctx context.Context, c *remote.Cluster, name string, s *stream) error {
	m, err := consumer.NewShare(c, consumer.ShareConfig{Group: fresh("ride"), Topics: []string{name}})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		rs, err := m.Poll(ctx)
		for _, r := range rs {
			s.add(r.Partition, r.Value)
		}
		if err != nil { // records that were not accepted are delivered again
			time.Sleep(10 * time.Millisecond)
		}
	}
	return m.Close()
}

func rideTransform(ctx context.Context, c *remote.Cluster, in, out string) error {
	m, err := consumer.New(c, consumer.Config{Group: fresh("ride"), Topics: []string{in}})
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := producer.New(c, producer.Config{TransactionalID: fresh("ride")})
	if err != nil {
		return err
	}
	defer p.Close()
	for {
		err := consumer.Transform(ctx, m, p, func(r record.Record, emit func(record.Record)) error {
			emit(record.Record{Topic: out, Value: r.Value}.To(r.Partition))
			return nil
		})
		if !errors.Is(err, producer.ErrAbortable) || ctx.Err() != nil {
			return err
		}
	}
}

// rideFollow reads the committed records of a topic.
func rideFollow(ctx context.Context, c consumer.LogBackend, name string, s *stream) error {
	for r, err := range consumer.Follow(ctx, c, consumer.ReadConfig{Topic: name}) {
		if err == nil {
			s.add(r.Partition, r.Value)
		} else if err := passing(err); err != nil {
			return err
		}
	}
	return nil
}
