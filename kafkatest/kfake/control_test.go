package kfake

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// inBubble runs f with a cluster on a virtual network, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, c *Cluster, network *VirtualNetwork), opts ...Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network VirtualNetwork
		c, err := NewCluster(append([]Opt{ListenFn(network.Listen)}, opts...)...)
		require.NoError(t, err)
		defer c.Close()
		f(t, c, &network)
	})
}

// client returns a client of a cluster in a bubble. The end of the test closes it.
func client(t *testing.T, c *Cluster, network *VirtualNetwork, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(network.DialContext)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// heartbeat sends a Heartbeat to a node and returns the error code of the answer.
func heartbeat(t *testing.T, cl *kgo.Client, node int) (code int16, err error) {
	t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = "g"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	resp, err := cl.Broker(node).Request(ctx, req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.HeartbeatResponse).ErrorCode, nil
}

// answer is a control function that answers heartbeats with a code.
func answer(code int16) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = code
		return resp, nil, true
	}
}

var heartbeatKey = int16(kmsg.Heartbeat)

func TestControlFunctionHandlesOneRequestUnlessItIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		code := func() int16 {
			got, err := heartbeat(t, cl, 0)
			require.NoError(t, err)
			return got
		}
		served := code() // the broker's own answer
		require.Equal(t, kerr.UnknownMemberID.Code, served)

		c.ControlKey(heartbeatKey, answer(101))
		c.ControlKey(heartbeatKey, answer(102))
		require.Equal(t, []int16{101, 102, served}, []int16{code(), code(), code()}, "in the order in which they were added, once")

		seen, kept := 0, 0
		c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) { // observes only, and stays
			if req.Key() == heartbeatKey {
				seen++
			}
			return nil, nil, false
		})
		c.ControlKey(heartbeatKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
			if kept++; kept == 3 {
				c.DropControl()
			}
			c.KeepControl()
			return answer(103)(req)
		})
		require.Equal(t, []int16{103, 103, 103, served, served}, []int16{code(), code(), code(), code(), code()})
		require.Equal(t, 2, seen, "functions of all keys come after those of the key")
	}, NumBrokers(1))
}

func TestControlFunctionCutsOrSilencesConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		_, err := heartbeat(t, cl, 0)
		require.NoError(t, err)
		c.ControlKey(heartbeatKey, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
		_, err = heartbeat(t, cl, 0)
		require.Error(t, err)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout(), "the connection is cut")
		c.ControlKey(heartbeatKey, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
		_, err = heartbeat(t, cl, 0)
		require.ErrorAs(t, err, &late)
		require.True(t, late.Timeout(), "nothing is answered")
	}, NumBrokers(1))
}

// Control functions run one at a time. While one sleeps others run, and then it continues.
func TestSleepingControlFunctionLetsOthersRun(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		first, second := client(t, c, network), client(t, c, network)
		var running, most atomic.Int32
		enter := func() func() {
			most.Store(max(most.Load(), running.Add(1)))
			return func() { running.Add(-1) }
		}
		wake := make(chan struct{})
		c.ControlKey(heartbeatKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
			leave := enter()
			if c.CurrentNode() != 1 { // the other request, while this function sleeps
				leave()
				return nil, nil, false
			}
			leave()
			c.SleepControl(func() { <-wake })
			defer enter()()
			require.Equal(t, int32(1), c.CurrentNode(), "when it goes on")
			return answer(101)(req)
		})
		slept := make(chan int16)
		go func() {
			code, err := heartbeat(t, first, 1)
			require.NoError(t, err)
			slept <- code
		}()
		synctest.Wait()
		require.Equal(t, int32(-1), c.CurrentNode(), "nobody runs")
		c.ControlKey(heartbeatKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
			defer enter()()
			time.Sleep(time.Second)
			return answer(102)(req)
		})
		_, err := second.Broker(0).Request(t.Context(), kmsg.NewPtrApiVersionsRequest())
		require.NoError(t, err)
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group = "g"
		resp, err := second.Broker(0).Request(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, int16(102), resp.(*kmsg.HeartbeatResponse).ErrorCode)
		close(wake)
		require.Equal(t, int16(101), <-slept)
		require.Equal(t, int32(1), most.Load(), "one at a time")
	}, NumBrokers(2))
}

func TestCloseEndsWhatControlFunctionsWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network VirtualNetwork
		c := MustCluster(NumBrokers(1), ListenFn(network.Listen))
		cl := client(t, c, &network)
		forever, slept := make(chan struct{}), make(chan struct{})
		c.ControlKey(heartbeatKey, func(kmsg.Request) (kmsg.Response, error, bool) {
			defer close(slept)
			c.SleepControl(func() { <-forever })
			return nil, nil, true
		})
		failed := make(chan error)
		go func() {
			_, err := heartbeat(t, cl, 0)
			failed <- err
		}()
		synctest.Wait()
		c.Close()
		<-slept
		require.Error(t, <-failed)
		close(forever)
	})
}

// Nodes count from 0 in all fields that clients read and write.
func TestNodesCountFromZero(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		ask := func(req kmsg.Request) kmsg.Response {
			resp, err := cl.Broker(0).Request(t.Context(), req)
			require.NoError(t, err)
			return resp
		}
		md := kmsg.NewPtrMetadataRequest()
		md.Topics = nil
		got := ask(md).(*kmsg.MetadataResponse)
		require.Equal(t, "kfake", *got.ClusterID)
		require.Contains(t, []int32{0, 1}, got.ControllerID)
		require.Len(t, got.Brokers, 2)
		for i, b := range got.Brokers {
			require.Equal(t, int32(i), b.NodeID)
			require.Equal(t, c.ListenAddrs()[i], net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		}
		p := got.Topics[0].Partitions[0]
		require.Equal(t, c.LeaderFor("a", 0), p.Leader)
		require.ElementsMatch(t, []int32{0, 1}, p.Replicas)
		require.ElementsMatch(t, []int32{0, 1}, p.ISR)

		create := kmsg.NewPtrCreateTopicsRequest()
		create.TimeoutMillis = 10_000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "b", -1, -1
		topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{0}}}
		create.Topics = append(create.Topics, topic)
		require.Zero(t, ask(create).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
		require.Equal(t, int32(0), c.LeaderFor("b", 0))
		require.Equal(t, int32(-1), c.LeaderFor("b", 1))

		describe := kmsg.NewPtrDescribeConfigsRequest()
		broker := kmsg.NewDescribeConfigsRequestResource()
		broker.ResourceType, broker.ResourceName = kmsg.ConfigResourceTypeBroker, "0"
		describe.Resources = append(describe.Resources, broker)
		described := ask(describe).(*kmsg.DescribeConfigsResponse).Resources[0]
		require.Zero(t, described.ErrorCode)
		require.Equal(t, "0", described.ResourceName)

		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		require.Equal(t, c.CoordinatorFor("g"), ask(find).(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID)

		fetch := kmsg.NewPtrShareFetchRequest()
		fetch.GroupID, fetch.MemberID = kmsg.StringPtr("s"), kmsg.StringPtr("m")
		gone := kmsg.NewShareFetchRequestTopic()
		gone.TopicID, gone.Partitions = [16]byte{15: 1}, []kmsg.ShareFetchRequestTopicPartition{kmsg.NewShareFetchRequestTopicPartition()}
		fetch.Topics = append(fetch.Topics, gone)
		answered := ask(fetch).(*kmsg.ShareFetchResponse).Topics[0].Partitions[0]
		require.Equal(t, kerr.UnknownTopicID.Code, answered.ErrorCode)
		require.Equal(t, int32(-1), answered.CurrentLeader.LeaderID, "0, which stands for none, is a node")
	}, NumBrokers(2), SeedTopics(1, "a"))
}

func TestVersionsAndListenersAreThoseOfTheOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		require.Equal(t, []string{"127.0.0.1:19092", "127.0.0.1:29092"}, c.ListenAddrs())
		cl := client(t, c, network)
		resp, err := cl.Broker(0).Request(t.Context(), kmsg.NewPtrApiVersionsRequest())
		require.NoError(t, err)
		versions := map[int16]int16{}
		for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
			versions[k.ApiKey] = k.MaxVersion
		}
		require.Equal(t, int16(7), versions[int16(kmsg.Metadata)])
		require.NotContains(t, versions, int16(kmsg.ConsumerGroupHeartbeat))
		_, err = network.DialContext(t.Context(), "tcp", "elsewhere:19092")
		require.ErrorContains(t, err, "only localhost")
		_, err = network.Listen("tcp", "127.0.0.1:19092")
		require.ErrorContains(t, err, "in use")
	}, Ports(19092, 29092), MaxVersions(kversion.V2_1_0()))
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	var log logged
	for says, opts := range map[string][]Opt{
		"must be at least 1":     {NumBrokers(0)},
		"there can be 100":       {NumBrokers(101)},
		"at least one partition": {DefaultNumPartitions(0)},
		"no.such.setting":        {BrokerConfigs(map[string]string{"no.such.setting": "1"})},
		"must be a number":       {BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "long"})},
		"unknown SASL mechanism": {EnableSASL(), Superuser("GUESS", "a", "b")},
		"no luck":                {ListenFn(func(string, string) (net.Listener, error) { return nil, errors.New("no luck") })},
		"not from 0 to 1":        {SyntheticFetch(SyntheticBatch{RandomFrac: 2})},
	} {
		_, err := NewCluster(append(opts, WithLogger(&log))...)
		require.ErrorContains(t, err, says)
		require.Panics(t, func() { MustCluster(opts...) })
	}
}

type logged struct{ atomic.Int32 }

func (l *logged) Logf(LogLevel, string, ...any) { l.Add(1) }

// When a client receives the end of a transaction, its markers are written, however slow the link
// to its partitions is. Close does not wait for markers.
func TestTransactionIsOverWhenItsEndIsConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("a"))
		write := func() {
			require.NoError(t, cl.BeginTransaction())
			require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("1")).FirstErr())
		}
		write()
		require.NoError(t, c.MoveTopicPartition("a", 0, 1-c.CoordinatorFor("x")))
		var alone []replication.Reassignment // so that only markers go from one broker to the other
		require.NoError(t, c.eachPartition(t.Context(), true, func(tp record.TopicPartition, p replication.PartitionMetadata) error {
			alone = append(alone, replication.Reassignment{Partition: tp, Replicas: []int32{p.Leader}})
			return nil
		}))
		require.NoError(t, c.reassign(t.Context(), alone))
		markers := c.server.OneWay(brokerOf(c.CoordinatorFor("x")), brokerOf(c.LeaderFor("a", 0)))

		markers.Slow(time.Second)
		begin := time.Now()
		require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
		require.GreaterOrEqual(t, time.Since(begin), time.Second)
		p := c.PartitionInfo("a", 0)
		require.Equal(t, []int64{2, 2}, []int64{p.HighWatermark, p.LastStableOffset}, "the record and the marker")

		markers.Mend()
		write()
		markers.Pause()
		ended := make(chan error)
		go func() { ended <- cl.EndTransaction(context.Background(), kgo.TryCommit) }()
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		d, err := c.inside().TransactionCoordinator().Describe(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "PrepareCommit", d.State.String())
		begin = time.Now()
		c.Close()
		require.Less(t, time.Since(begin), 5*time.Second)
		cl.Close()
		<-ended // its outcome was decided, whether or not the answer arrives
	}, NumBrokers(2), SeedTopics(1, "a"))
}
