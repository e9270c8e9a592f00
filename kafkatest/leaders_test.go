package kafkatest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// inOrder produces records one after another to partition p of "orders".
func inOrder(t *testing.T, cl *kgo.Client, p int32, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		require.NoError(t, cl.ProduceSync(testContext(t), &kgo.Record{Topic: "orders", Partition: p, Value: fmt.Append(nil, n)}).FirstErr())
	}
}

// requireOnce checks that a partition of "orders" has 0 to n-1, each once and in order.
func requireOnce(t *testing.T, s *Server, p int32, n int) {
	t.Helper()
	var got, want []string
	for _, r := range s.Topic("orders") {
		if r.Partition == p {
			got = append(got, string(r.Value))
		}
	}
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	require.Equal(t, want, got)
}

// A producing and a consuming client follow a leader that moves.
func TestLeadersAreMovedUnderAClient(t *testing.T) {
	for name, cfg := range map[string]Config{"pipe": {Pipe: true}, "tcp": {}, "directory": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			cfg.Brokers, cfg.Replicas, cfg.Topics = 3, 3, map[string]int{"orders": 1}
			s := New(t, cfg)
			cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			first, n := s.Leader("orders", 0), 0
			for range 2 {
				for step := range int32(3) {
					to := (first+step)%3 + 1
					s.MoveLeader("orders", 0, to)
					require.Equal(t, to, s.Leader("orders", 0))
					inOrder(t, cl, 0, n, n+5)
					for i, r := range consume(t, cl, 5) {
						require.Equal(t, fmt.Sprint(n+i), string(r.Value))
					}
					n += 5
				}
			}
			s.WaitISR("orders", 0, 3, 2, 1)
			requireOnce(t, s, 0, n)
		})
	}
}

func TestMoveLeaderWaitsUntilTheBrokerIsInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Brokers: 2, Replicas: 2, Topics: map[string]int{"orders": 1}})
		leader := s.Leader("orders", 0)
		other, link := 3-leader, s.Between(1, 2)
		link.Cut()
		s.StopBroker(other)
		s.Fill("orders", record.String("orders", "", "0"))
		s.StartBroker(other)
		start := time.Now()
		time.AfterFunc(5*time.Second, link.Mend)
		s.MoveLeader("orders", 0, other)
		require.GreaterOrEqual(t, time.Since(start), 5*time.Second)
		require.Equal(t, other, s.Leader("orders", 0))
		requireOnce(t, s, 0, 1)
	})
}

func TestLeadersAreShuffled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 6, "other": 1}})
		cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		leaders := func() (ids []int32) {
			for p := range int32(6) {
				ids = append(ids, s.Leader("orders", p))
			}
			return ids
		}
		first, before, other := leaders(), leaders(), s.Leader("other", 0)
		for round := range 3 {
			for p := range int32(6) {
				inOrder(t, cl, p, 10*round, 10*round+10)
			}
			for p := range int32(6) {
				s.WaitISR("orders", p, 1, 2, 3)
			}
			require.Equal(t, 6, s.ShuffleLeaders("orders"))
			for p, was := range before {
				require.NotEqual(t, was, leaders()[p])
			}
			before = leaders()
		}
		require.Equal(t, first, leaders(), "as often as there are replicas")
		require.Equal(t, other, s.Leader("other", 0), "it was not asked for")
		require.Equal(t, 7, s.ShuffleLeaders())
		require.NotEqual(t, other, s.Leader("other", 0))
		for p := range int32(6) {
			requireOnce(t, s, p, 30)
		}
		cl.Close()
	})
}

// A follower that is cut off leaves the in-sync set, and acks=all continues without it. After Mend
// it rejoins the set and can lead.
func TestFollowerIsCutOffAndComesBack(t *testing.T) {
	for name, link := range map[string]func(s *Server, leader, follower int32) *Link{
		"both ways": func(s *Server, leader, follower int32) *Link { return s.Between(leader, follower) },
		"requests":  func(s *Server, leader, follower int32) *Link { return s.OneWay(follower, leader) },
		"answers":   func(s *Server, leader, follower int32) *Link { return s.OneWay(leader, follower) },
		"alone":     func(s *Server, leader, follower int32) *Link { return s.Around(follower) },
	} {
		for how, impair := range map[string]func(*Link){"cut": (*Link).Cut, "paused": (*Link).Pause} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := New(t, Config{Pipe: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})
					cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
					inOrder(t, cl, 0, 0, 5)
					s.WaitISR("orders", 0, 1, 2, 3)
					leader := s.Leader("orders", 0)
					follower, other := leader%3+1, (leader+1)%3+1
					l := link(s, leader, follower)
					impair(l)
					start := time.Now()
					inOrder(t, cl, 0, 5, 10)
					if name == "alone" {
						require.GreaterOrEqual(t, time.Since(start), 9*time.Second, "acks=all waits until it is fenced")
						require.Less(t, time.Since(start), 10*time.Second)
					} else {
						require.Greater(t, time.Since(start), 15*time.Second, "acks=all waits until it has left")
					}
					require.Less(t, time.Since(start), time.Minute)
					s.WaitISR("orders", 0, leader, other)
					l.Mend()
					start = time.Now()
					s.WaitISR("orders", 0, 1, 2, 3)
					require.Less(t, time.Since(start), 10*time.Second)
					s.MoveLeader("orders", 0, follower)
					inOrder(t, cl, 0, 10, 15)
					requireOnce(t, s, 0, 15)
					cl.Close()
				})
			})
		}
	}
}

// A leader that is cut off, and coordinates a group too, is fenced after 9 s. Clients that produce
// and consume continue at other brokers, without loss or duplicates. The leader may be killed
// meanwhile. After Mend it rejoins and can lead.
func TestLeaderIsCutOffAndClientsGoOn(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(t, Config{Pipe: true, Brokers: 3, Replicas: 3, Topics: map[string]int{"orders": 1}})
				cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				reader := client(t, s, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				inOrder(t, cl, 0, 0, 5)
				require.Len(t, consume(t, reader, 5), 5)
				require.NoError(t, reader.CommitUncommittedOffsets(testContext(t)))
				cutOff := s.Coordinator("billing")
				s.MoveLeader("orders", 0, cutOff)
				inOrder(t, cl, 0, 5, 7)
				link := s.Around(cutOff)
				link.Cut()
				start := time.Now()
				inOrder(t, cl, 0, 7, 10)
				require.GreaterOrEqual(t, time.Since(start), 9*time.Second)
				require.Less(t, time.Since(start), 15*time.Second)
				require.NotEqual(t, cutOff, s.Leader("orders", 0))
				require.Len(t, consume(t, reader, 5), 5)
				require.NoError(t, reader.CommitUncommittedOffsets(testContext(t)))
				if killed {
					s.KillBroker(cutOff)
				}
				link.Mend()
				if killed {
					s.StartBroker(cutOff)
				}
				s.WaitISR("orders", 0, 1, 2, 3)
				s.MoveLeader("orders", 0, cutOff)
				inOrder(t, cl, 0, 10, 15)
				require.Len(t, consume(t, reader, 5), 5)
				requireOnce(t, s, 0, 15)
				reader.Close()
				cl.Close()
			})
		})
	}
}

// acks=all waits for the delay of a slow link.
func TestSlowLinkIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Brokers: 2, Replicas: 2, Topics: map[string]int{"orders": 1}})
		cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		inOrder(t, cl, 0, 0, 1)
		took := func(n int) time.Duration {
			start := time.Now()
			inOrder(t, cl, 0, n, n+1)
			return time.Since(start)
		}
		require.Less(t, took(1), time.Second)
		l := s.Between(1, 2)
		l.Slow(2 * time.Second)
		require.InDelta(t, 6, took(2).Seconds(), 2.5, "the record goes one way, that it is there the other")
		l.Mend()
		took(3) // data in flight keeps its delay
		require.Less(t, took(4), time.Second)
		s.WaitISR("orders", 0, 1, 2)
		cl.Close()
	})
}

// The leader dies and its log loses the unsynced data. Each acknowledged record is still there.
func TestKilledLeaderIsSucceeded(t *testing.T) {
	for name, end := range ends {
		for net, cfg := range map[string]Config{"pipe": {Pipe: true}, "tcp": {}} {
			t.Run(name+" "+net, func(t *testing.T) {
				cfg.Brokers, cfg.Replicas, cfg.Topics = 3, 3, map[string]int{"orders": 1}
				cfg.Defaults.MinInSyncReplicas = 2
				s := New(t, cfg)
				cl := client(t, s, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				for n := range 5 {
					inOrder(t, cl, 0, 10*n, 10*n+5)
					gone := s.Leader("orders", 0)
					end(s, gone)
					require.NotEqual(t, gone, s.Leader("orders", 0))
					inOrder(t, cl, 0, 10*n+5, 10*n+10)
					s.StartBroker(gone)
					s.WaitISR("orders", 0, 1, 2, 3)
				}
				requireOnce(t, s, 0, 50)
			})
		}
	}
}

func TestLeadersAndLinksThatAreNotThereFailTheTest(t *testing.T) {
	one := record.String("orders", "", "x")
	for want, do := range map[string]func(s *Server){
		"there is no broker 4":                 func(s *Server) { s.Between(1, 4) },
		"there is no broker 0":                 func(s *Server) { s.OneWay(0, 1) },
		"there is no broker 9":                 func(s *Server) { s.Around(9).Cut() },
		"no link from broker 2 to itself":      func(s *Server) { s.Between(2, 2) },
		"move leader of gone-0 to broker 1":    func(s *Server) { s.MoveLeader("gone", 0, 1) },
		"move leader of orders-1 to broker 1":  func(s *Server) { s.MoveLeader("orders", 1, 1) },
		"not in sync: broker 7 for orders-0":   func(s *Server) { s.MoveLeader("orders", 0, 7) },
		"shuffle leaders: replication: unknow": func(s *Server) { s.ShuffleLeaders("gone") },
		"waiting for [1] to be in sync": func(s *Server) {
			s.Fill("orders", one)
			s.WaitISR("orders", 0, 1)
		},
	} {
		f := &fakeT{}
		require.Contains(t, f.run(func() {
			do(New(f, Config{Pipe: true, Brokers: 2, Replicas: 2, Topics: map[string]int{"orders": 1}, WaitTimeout: 50 * time.Millisecond}))
		}), want)
	}
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Brokers: 2, Replicas: 3}) }), "3 replicas of a partition with 2 brokers")
	require.Contains(t, f.run(func() { New(f, Config{Replicas: -1}) }), "negative number of replicas")
}
