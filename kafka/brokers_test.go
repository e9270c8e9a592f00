package kafka

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// brokers is a cluster of brokers 1, 2, ... that are all served. Partition i of the topic "orders"
// is led by broker i+1, which is in the rack r<i+1>.
type brokers struct {
	*Server
	t     testing.TB
	addrs map[int32]string
}

func serveBrokers(t testing.TB, n int, cfg Config) *brokers {
	t.Helper()
	specs := map[int32]replication.BrokerSpec{}
	var assignment [][]int32
	for id := int32(1); id <= int32(n); id++ {
		specs[id] = replication.BrokerSpec{Rack: fmt.Sprint("r", id)}
		assignment = append(assignment, []int32{id})
	}
	cluster, err := strata.Open(strata.Config{Brokers: n, BrokerSpecs: specs})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.Backend().CreateTopic(t.Context(), "orders", topic.Config{Partitions: n, ReplicationFactor: 1, Assignment: assignment}))
	return serveAll(t, cluster, cfg)
}

// serveAll serves every broker of cluster that is present.
func serveAll(t testing.TB, cluster *strata.Cluster, cfg Config) *brokers {
	t.Helper()
	b := &brokers{Server: NewServer(cluster, cfg), t: t, addrs: map[int32]string{}}
	lns := map[int32]net.Listener{}
	for _, id := range b.cluster.Brokers() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		lns[id], b.addrs[id] = ln, ln.Addr().String()
	}
	ended := make(chan error, 1)
	go func() { ended <- b.ServeAll(lns) }()
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-ended, ErrServerClosed)
	})
	return b
}

// id returns the id of the topic "orders".
func (b *brokers) id() topic.ID {
	id, known := b.cluster.TopicID("orders")
	require.True(b.t, known)
	return id
}

// ends returns the number of records in each partition of "orders".
func (b *brokers) ends() (ends []int64) {
	for p := range int32(len(b.addrs)) {
		ends = append(ends, b.cluster.Status("orders", p).LogEndOffset)
	}
	return ends
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

// Metadata and DescribeCluster name the controller. Kafka 4 names any live broker, because each
// one forwards.
func TestEveryBrokerNamesAllBrokersAndLeaders(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	for id, addr := range b.addrs {
		for version := range int16(14) {
			got := askMetadata(t, addr, version, false, topicNamed("orders"))
			require.Len(t, got.Brokers, 3, "broker %d, version %d", id, version)
			for _, is := range got.Brokers {
				require.Equal(t, b.addrs[is.NodeID], hostPort(is.Host, is.Port))
				if version >= 1 {
					require.Equal(t, fmt.Sprint("r", is.NodeID), *is.Rack)
				}
			}
			for i, p := range got.Topics[0].Partitions {
				require.Zero(t, p.ErrorCode)
				require.EqualValues(t, i+1, p.Leader)
				require.Equal(t, []int32{p.Leader}, p.Replicas)
				require.Equal(t, []int32{p.Leader}, p.ISR)
				require.Empty(t, p.OfflineReplicas)
			}
			if version >= 1 {
				require.Equal(t, b.cluster.Controller(), got.ControllerID)
			}
		}
		for version := range int16(3) {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.IncludeFencedBrokers = true
			got := ask[*kmsg.DescribeClusterResponse](t, addr, version, req)
			require.Len(t, got.Brokers, 3)
			for i, is := range got.Brokers {
				require.EqualValues(t, i+1, is.NodeID)
				require.Equal(t, b.addrs[is.NodeID], hostPort(is.Host, is.Port))
				require.Equal(t, fmt.Sprint("r", is.NodeID), *is.Rack)
				require.False(t, is.IsFenced)
			}
		}
	}
}

func TestServerAdvertisesEachBrokerWhereItIsTold(t *testing.T) {
	b := serveBrokers(t, 2, Config{Advertise: func(broker int32, ln net.Listener) (string, int32) {
		return fmt.Sprintf("broker-%d.example", broker), 9000 + broker
	}})
	for _, is := range askMetadata(t, b.addrs[1], 13, false).Brokers {
		require.Equal(t, fmt.Sprintf("broker-%d.example:%d", is.NodeID, 9000+is.NodeID), hostPort(is.Host, is.Port))
	}
	got := askConfigs(t, b.addrs[2], resourceBroker, "2", "advertised.listeners", "broker.rack", "log.dirs", "node.id")
	values := map[string]string{}
	for _, e := range got.Configs {
		values[e.Name] = *e.Value
	}
	require.Equal(t, map[string]string{
		"advertised.listeners": "PLAINTEXT://broker-2.example:9002", "broker.rack": "r2", "log.dirs": b.cluster.LogDir(2), "node.id": "2",
	}, values)
	require.NotEqual(t, b.cluster.LogDir(1), b.cluster.LogDir(2))
}

// A client cannot reach a broker that no listener serves. From version 6 on the error is
// LISTENER_NOT_FOUND, before it LEADER_NOT_AVAILABLE.
func TestLeaderWithoutAListenerCannotBeReached(t *testing.T) {
	cluster, err := strata.Open(strata.Config{Brokers: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2, ReplicationFactor: 1, Assignment: [][]int32{{1}, {2}}}))
	_, addr := serveCluster(t, cluster, Config{})
	require.EqualValues(t, 1, cluster.Controller())
	for version := range int16(14) {
		got := askMetadata(t, addr, version, false, topicNamed("orders"))
		require.Len(t, got.Brokers, 1)
		require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
		p := got.Topics[0].Partitions[1]
		require.EqualValues(t, -1, p.Leader)
		require.Empty(t, p.OfflineReplicas, "it serves")
		if version >= 6 {
			require.Equal(t, ListenerNotFound, Code(p.ErrorCode))
		} else {
			require.Equal(t, LeaderNotAvailable, Code(p.ErrorCode))
		}
	}
}

// CloseBroker closes only the connections, the listener and the fetch sessions of its broker. The
// broker can be served again at another address.
func TestClosedBrokerIsGoneUntilItIsServedAgain(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	mine, other := dial(t, b.addrs[2]), dial(t, b.addrs[1])
	first := want(12, "orders", 0)
	first.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](t, b.addrs[2], 12, first).SessionID
	require.NotZero(t, session)
	long := want(12, "orders", 0)
	long.MinBytes, long.MaxWaitMillis, long.Topics[0].Partitions[0].Partition = 1, 3_600_000, 1
	mine.send(long)
	b.CloseBroker(2)
	b.CloseBroker(7) // no such broker
	mine.closed()
	_, err := net.Dial("tcp", b.addrs[2])
	require.Error(t, err)
	require.Zero(t, other.ask(b.produceTo(12, 0)).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	require.Len(t, askMetadata(t, b.addrs[1], 13, false).Brokers, 2, "the cluster still has it")

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(2, ln) }()
	again := want(12, "orders")
	again.SessionID, again.SessionEpoch = session, 1
	require.Equal(t, FetchSessionIDNotFound, Code(ask[*kmsg.FetchResponse](t, ln.Addr().String(), 12, again).ErrorCode), "a new incarnation")
	for _, is := range askMetadata(t, b.addrs[1], 13, false).Brokers {
		if is.NodeID == 2 {
			require.Equal(t, ln.Addr().String(), hostPort(is.Host, is.Port))
		}
	}
	b.CloseBroker(2)
	require.ErrorIs(t, <-ended, ErrServerClosed)
}

func TestServeAllServesAllOrNone(t *testing.T) {
	cluster, err := strata.Open(strata.Config{Brokers: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	s := NewServer(cluster, Config{})
	defer s.Close()
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return ln
	}
	one, other := listen(), listen()
	require.ErrorIs(t, s.ServeAll(map[int32]net.Listener{1: one, 3: other}), ErrUnknownBroker)
	for _, ln := range []net.Listener{one, other} {
		_, err := ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
	_, _, known := s.address(1, "PLAINTEXT")
	require.False(t, known)
	one, other = listen(), listen()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeAll(map[int32]net.Listener{1: one, 2: other}) }()
	require.Len(t, askMetadata(t, one.Addr().String(), 13, false).Brokers, 2, "before the first connection")
	other.Close()
	require.ErrorIs(t, <-ended, net.ErrClosed, "what ended it")
	_, err = one.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	at := listen()
	go func() { ended <- s.Serve(2, at) }()
	require.Len(t, askMetadata(t, at.Addr().String(), 13, false).Brokers, 2, "served again")
	host, port, _ := s.address(2, "PLAINTEXT")
	require.Equal(t, at.Addr().String(), hostPort(host, port), "at another address")
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, ErrServerClosed)
}

// failing is a listener whose Accept returns the error of accept.
type failing struct {
	net.Listener
	port   int
	accept func() error
}

func (f failing) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: f.port} }
func (f failing) Accept() (net.Conn, error) { return nil, f.accept() }
func (f failing) Close() error              { return nil }

// As soon as Serve has returned, the broker can be served at another address. Concurrent lookups
// of the address delay the end of Serve.
func TestClientsAreToldWhereABrokerIsServedNext(t *testing.T) {
	const brokers = 8
	times := 5000
	if raceEnabled {
		times = 30 // contended locks are slow then; the race detector finds nothing
	}
	cluster, err := strata.Open(strata.Config{Brokers: brokers})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	s := NewServer(cluster, Config{})
	defer s.Close()
	var wg, asking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				s.address(1, "PLAINTEXT")
			}
		})
	}
	for id := int32(1); id <= brokers; id++ {
		wg.Go(func() {
			for port := 1; port <= times; port++ {
				told := int32(0)
				err := s.Serve(id, failing{port: port, accept: func() error {
					_, told, _ = s.address(id, "PLAINTEXT")
					return io.ErrUnexpectedEOF
				}})
				if err == nil || told != int32(port) {
					t.Errorf("clients are told of port %d, and it is %d: %v", told, port, err)
					return
				}
			}
		})
	}
	wg.Wait()
	stop()
	asking.Wait()
}

// A broker has two listeners and the first one fails. Clients receive the address of the second.
func TestClientsAreToldOfTheListenerThatIsLeft(t *testing.T) {
	cluster, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	s := NewServer(cluster, Config{})
	defer s.Close()
	first, err := s.Announce(map[int32]net.Listener{1: failing{port: 1, accept: func() error { return io.ErrUnexpectedEOF }}})
	require.NoError(t, err)
	told := make(chan int32, 1)
	second, err := s.Announce(map[int32]net.Listener{1: failing{port: 2, accept: func() error {
		_, port, _ := s.address(1, "PLAINTEXT")
		told <- port
		return io.ErrUnexpectedEOF
	}}})
	require.NoError(t, err)
	_, port, _ := s.address(1, "PLAINTEXT")
	require.EqualValues(t, 1, port)
	require.ErrorIs(t, first(), io.ErrUnexpectedEOF)
	require.ErrorIs(t, second(), io.ErrUnexpectedEOF)
	require.EqualValues(t, 2, <-told)
}
