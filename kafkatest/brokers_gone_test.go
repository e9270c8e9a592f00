package kafkatest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// ends are the ways to end a broker.
var ends = map[string]func(*Server, int32){"stopped": (*Server).StopBroker, "killed": (*Server).KillBroker}

// A producer continues with partitions that other brokers lead, and with the rest after the
// broker's return. Each record is in the log once, in order.
func TestClientsRideThroughTheEndOfABroker(t *testing.T) {
	for name, end := range ends {
		for net, cfg := range map[string]Config{"pipe": {Pipe: true}, "tcp": {}, "directory": {Dir: t.TempDir()}} {
			t.Run(name+" "+net, func(t *testing.T) {
				cfg.Brokers, cfg.Topics = 3, map[string]int{"orders": 3}
				s := New(t, cfg)
				gone := s.Leader("orders", 1)
				cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				send := func(p int32, n int) (done chan error) {
					done = make(chan error, 1)
					cl.Produce(testContext(t), &kgo.Record{Topic: "orders", Partition: p, Value: fmt.Append(nil, n)}, func(_ *kgo.Record, err error) { done <- err })
					return done
				}
				const before, after = 20, 20
				for n := range before {
					for p := range int32(3) {
						require.NoError(t, <-send(p, n))
					}
				}
				end(s, gone)
				require.EqualValues(t, -1, s.Leader("orders", 1))
				_, err := s.Dial(testContext(t), "tcp", s.Addr(gone))
				require.Error(t, err, "nobody is there")
				var late []chan error
				for n := before; n < before+after; n++ {
					late = append(late, send(1, n))
					for _, p := range []int32{0, 2} {
						require.NoError(t, <-send(p, n), "led by a broker that is there")
					}
				}
				require.Len(t, s.Addrs(), 3)
				s.StartBroker(gone)
				require.Equal(t, gone, s.Leader("orders", 1))
				for _, done := range late {
					require.NoError(t, <-done)
				}
				next := map[int32]int{}
				for _, r := range s.Topic("orders") {
					require.Equal(t, fmt.Sprint(next[r.Partition]), string(r.Value))
					next[r.Partition]++
				}
				require.Equal(t, map[int32]int{0: before + after, 1: before + after, 2: before + after}, next)
			})
		}
	}
}

// A group whose coordinator dies continues at its offsets with the next coordinator.
func TestGroupSurvivesTheEndOfItsCoordinator(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := New(t, Config{Brokers: 2, Pipe: true, Topics: map[string]int{"orders": 2}})
			owner := s.Coordinator("g")
			s.Fill("orders", record.String("orders", "", "1").To(0), record.String("orders", "", "1").To(1))
			cl := client(t, s, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
			consume(t, cl, 2)
			require.NoError(t, cl.CommitUncommittedOffsets(testContext(t)))
			end(s, owner)
			require.NotEqual(t, owner, s.Coordinator("g"))
			s.StartBroker(owner)
			s.Fill("orders", record.String("orders", "", "2").To(0), record.String("orders", "", "2").To(1))
			for _, r := range consume(t, cl, 2) {
				require.Equal(t, "2", string(r.Value))
			}
			require.NoError(t, cl.CommitUncommittedOffsets(testContext(t)))
			for p := range int32(2) {
				s.WaitCommitted("g", record.TopicPartition{Topic: "orders", Partition: p}, 2)
			}
		})
	}
}

// A killed broker does not answer the requests it has begun: the connection ends without an
// answer.
func TestKilledBrokerAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Brokers: 2, Pipe: true, Topics: map[string]int{"orders": 2}})
		gone := s.Leader("orders", 1)
		nc, err := s.Dial(t.Context(), "tcp", s.Addr(gone))
		require.NoError(t, err)
		defer nc.Close()
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 12, 3_600_000, 1, 1<<20, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic, ft.Partitions = "orders", []kmsg.FetchRequestTopicPartition{{Partition: 1, CurrentLeaderEpoch: -1, PartitionMaxBytes: 1 << 20}}
		fetch.Topics = append(fetch.Topics, ft)
		_, err = nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, fetch, 1))
		require.NoError(t, err)
		synctest.Wait() // it waits for records
		s.KillBroker(gone)
		n, err := nc.Read(make([]byte, 1))
		require.Error(t, err)
		require.Zero(t, n)
	})
}

func TestBrokersAreAddedAndRemoved(t *testing.T) {
	for net, cfg := range map[string]Config{"pipe": {Pipe: true}, "tcp": {}} {
		t.Run(net, func(t *testing.T) {
			cfg.Racks, cfg.Topics = []string{"a"}, map[string]int{"old": 2}
			s := New(t, cfg)
			cl := client(t, s, kgo.AllowAutoTopicCreation())
			require.EqualValues(t, 2, s.AddBroker("b"))
			require.EqualValues(t, 3, s.AddBroker(""))
			require.Len(t, s.Addrs(), 3)
			require.NoError(t, s.Cluster().Backend().EnsureTopic(testContext(t), "new", s.cfg.Defaults))
			require.NoError(t, cl.ProduceSync(testContext(t), &kgo.Record{Topic: "new"}).FirstErr(), "a client finds who leads it")
			require.NotEqualValues(t, 1, s.Leader("new", 0))
			check := func(want ...int32) {
				t.Helper()
				md, err := kmsg.NewPtrMetadataRequest().RequestWith(testContext(t), cl)
				require.NoError(t, err)
				var got []int32
				for _, b := range md.Brokers {
					got = append(got, b.NodeID)
					require.Equal(t, s.Addr(b.NodeID), fmt.Sprintf("%s:%d", b.Host, b.Port))
					if b.NodeID == 2 {
						require.Equal(t, "b", *b.Rack)
					}
				}
				require.Equal(t, want, got)
			}
			check(1, 2, 3)
			require.NoError(t, s.Cluster().DeleteTopic(testContext(t), "new"))
			s.RemoveBroker(3)
			check(1, 2)
			s.Restart()
			check(1, 2)
			require.Equal(t, []string{s.Addr(1), s.Addr(2)}, s.Addrs())
			require.EqualValues(t, 3, s.AddBroker("c"))
			check(1, 2, 3)
			s.RemoveBroker(2) // a restart finds its directory below that of broker 3
			check(1, 3)
			s.Restart()
			check(1, 3)
		})
	}
}

func TestChangesOfBrokersThatCannotBeFailTheTest(t *testing.T) {
	for says, do := range map[string]func(*Server){
		"stop broker 3: ":                          func(s *Server) { s.StopBroker(3) },
		"kill broker 3: ":                          func(s *Server) { s.KillBroker(3) },
		"start broker 1: ":                         func(s *Server) { s.StartBroker(1) },
		"kafkatest: stop broker 2: replication: l": func(s *Server) { s.StopBroker(1); s.StopBroker(2) },
		"kafkatest: kill broker 2: replication: l": func(s *Server) { s.StopBroker(1); s.KillBroker(2) },
		"kill broker 1: replication: broker is no": func(s *Server) { s.KillBroker(1); s.KillBroker(1) },
		"remove broker 1: ":                        func(s *Server) { s.RemoveBroker(1) },
	} {
		f := &fakeT{}
		require.Contains(t, f.run(func() { do(New(f, Config{Brokers: 2, Pipe: true, Topics: map[string]int{"a": 2}})) }), says)
	}
}
