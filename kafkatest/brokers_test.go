package kafkatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Clients find every broker from any address, and each record is
// on the broker that leads its partition.
func TestSeveralBrokersAreOneCluster(t *testing.T) {
	for name, cfg := range map[string]Config{"tcp": {}, "pipe": {Pipe: true}, "directory": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			cfg.Brokers, cfg.Racks, cfg.Topics = 3, []string{"a", "b", "c"}, map[string]int{"orders": 6}
			s := New(t, cfg)
			require.Len(t, s.Addrs(), 3)
			led := map[int32]int{}
			for p := range int32(6) {
				led[s.Leader("orders", p)]++
			}
			require.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2}, led)
			require.EqualValues(t, -1, s.Leader("orders", 6))
			for i, seed := range s.Addrs() {
				require.Equal(t, seed, s.Addr(int32(i+1)))
				cl := client(t, s, kgo.SeedBrokers(seed), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeTopics("orders"),
					kgo.ConsumerGroup(fmt.Sprint("g", i)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				for p := range int32(6) {
					require.NoError(t, cl.ProduceSync(testContext(t), &kgo.Record{Topic: "orders", Partition: p, Value: []byte("v")}).FirstErr())
				}
				require.Len(t, consume(t, cl, 6*(i+1)), 6*(i+1))
				md, err := kmsg.NewPtrMetadataRequest().RequestWith(testContext(t), cl)
				require.NoError(t, err)
				require.Len(t, md.Brokers, 3)
				for _, b := range md.Brokers {
					require.Equal(t, s.Addr(b.NodeID), fmt.Sprintf("%s:%d", b.Host, b.Port))
					require.Equal(t, cfg.Racks[b.NodeID-1], *b.Rack)
				}
			}
			for _, x := range s.Requests() {
				if kafka.Key(x.Key) != kafka.Produce {
					continue
				}
				for _, part := range x.Request.(*kmsg.ProduceRequest).Topics[0].Partitions {
					require.Equal(t, x.Broker, s.Leader("orders", part.Partition), "a client asks the leader")
				}
			}
			s.Restart()
			require.Len(t, s.Topic("orders"), 18)
		})
	}
}

func TestServerOfADirectoryHasTheBrokersThatAreThere(t *testing.T) {
	dir := t.TempDir()
	f := &fakeT{}
	require.Empty(t, f.run(func() {
		New(f, Config{Dir: dir, Brokers: 2, Topics: map[string]int{"a": 2}}).Fill("a", record.String("a", "", "0").To(0), record.String("a", "", "1").To(1))
	}))
	s := New(t, Config{Dir: dir})
	require.Len(t, s.Addrs(), 2)
	require.Len(t, s.Topic("a"), 2)
}

// Checklist row F23.
func TestServersOfADirectoryAcceptTheSameTopics(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Topics: map[string]int{"a": 2}, TopicConfigs: map[string]topic.Config{"a": {}, "b": {}}}
	first := &fakeT{}
	require.Empty(t, first.run(func() {
		New(first, cfg).Fill("a", record.String("a", "", "0").To(0), record.String("a", "", "1").To(1))
	}))
	other := &fakeT{}
	require.Contains(t, other.run(func() {
		New(other, Config{Dir: cfg.Dir, Topics: map[string]int{"a": 3}})
	}), `topic "a" exists with 2 partitions, Config has 3`)
	require.Len(t, New(t, cfg).Topic("a"), 2)
}

func TestCoordinatorIsOneOfTheBrokers(t *testing.T) {
	s := New(t, Config{Brokers: 3, Pipe: true})
	cl, seen := client(t, s), map[int32]bool{}
	for i := range 50 {
		id := fmt.Sprint("g", i)
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{id}
		got, err := req.RequestWith(testContext(t), cl)
		require.NoError(t, err)
		require.Equal(t, s.Coordinator(id), got.Coordinators[0].NodeID)
		seen[got.Coordinators[0].NodeID] = true
	}
	require.Len(t, seen, 3)
}

// A fault of one broker does not hit the same requests to other brokers.
func TestFaultOfOneBrokerLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Brokers: 3, Pipe: true, Topics: map[string]int{"orders": 3}})
		cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		slow := s.Leader("orders", 1)
		j := s.Fault(Fault{Broker: slow, APIs: []kafka.Key{kafka.Produce}, Delay: 5 * time.Second, Times: Always})
		for p := range int32(3) {
			start := time.Now()
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: p}).FirstErr())
			if s.Leader("orders", p) == slow {
				require.GreaterOrEqual(t, time.Since(start), 5*time.Second)
			} else {
				require.Less(t, time.Since(start), 5*time.Second)
			}
		}
		require.Equal(t, 1, j.Hits())
		cl.Close()
	})
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Brokers: 2, Pipe: true}).Fault(Fault{Broker: 3, Close: true}) }), "there is no broker 3")
}

// Sessions of two brokers can have the same number.
func TestFetchSessionsAreFollowedByBroker(t *testing.T) {
	var s sessions
	for broker := int32(1); broker <= 2; broker++ {
		req, resp := kmsg.NewPtrFetchRequest(), kmsg.NewPtrFetchResponse()
		req.Topics = []kmsg.FetchRequestTopic{{Topic: fmt.Sprint("t", broker), Partitions: []kmsg.FetchRequestTopicPartition{{Partition: 0}}}}
		req.SessionEpoch, resp.SessionID = 0, 7
		s.response(broker, req, resp)
	}
	next := kmsg.NewPtrFetchRequest()
	next.SessionID, next.SessionEpoch = 7, 1
	require.Equal(t, []target{{topic: "t1"}}, s.targets(1, next))
	require.Equal(t, []target{{topic: "t2"}}, s.targets(2, next))
}
