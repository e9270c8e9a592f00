// Package kafkatest is httptest for Kafka: a broker inside the test, or several, which any Kafka
// client can be pointed at, and which goes wrong on demand.
//
//	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 6}})
//	startWorker(t, s.Addrs()) // your code and your Kafka client, unchanged
//	lost := s.Fault(kafkatest.Fault{ // a commit is stored, and its answer lost
//		APIs: []kafka.Key{kafka.OffsetCommit}, Close: true, AfterApply: true,
//	})
//	s.Fill("orders", record.String("orders", "k", "paid"))
//	lost.Wait(1)
//	s.WaitCommitted("billing", record.TopicPartition{Topic: "orders", Partition: 2}, 1)
//
// # Promises
//
//   - New returns a broker that serves; at the end of the test it is closed, and a goroutine
//     of it that is left fails the test.
//   - It is the broker of package kafka over package strata, not an imitation: durable if it has a
//     directory, and with Kafka's answers.
//   - Brokers stop, are killed, start, are added and removed while clients are connected; a killed
//     one answers nothing and loses what it had not synced.
//   - Partitions have replicas if Config.Replicas says so: leaders are moved, shuffled and killed,
//     links between brokers cut one way or both, slowed, paused and mended.
//   - Several brokers are one cluster, each at its address: what another one leads or coordinates
//     is NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR.
//   - Any number of servers run side by side; they share nothing.
//   - Nothing has to sleep: WaitRecords, WaitGroup, WaitCommitted, WaitRequests and
//     Injected.Wait return as soon as something is so, and fail the test when it does not come
//     to be, with what was seen and the last requests.
//   - A Fault hits exactly the requests that it selects, counts them, and answers errors as
//     Kafka words them, in every version. Faults of the disk are those of package vfs: Config.FS
//     takes a vfs.MemFS or a vfs.FaultFS.
//
// # What does my code get wrong?
//
//	kafkatest.Check(t, kafkatest.Code{Produce: produce, Consume: consume})
//
// Check runs client code with one thing after the other going wrong, and says what it lost, doubled
// and reordered in each case. See its example.
//
// # Virtual time
//
// With Config.Pipe a server and its network live in memory, and everything in them waits in ways
// that testing/synctest knows. In a bubble a session timeout of 45 s costs no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		s := kafkatest.New(t, kafkatest.Config{Pipe: true})
//		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
//
// The server has to be made in the bubble, and the client closed before the test function ends,
// as all goroutines of a bubble have to end. The producers and consumers of this module work
// there as they are (give them Server.Cluster). franz-go v1.22 works too: producing, group
// consuming, commits, sessions running out, all without its build tag synctests. The clock of a
// bubble stands still while a goroutine waits for a mutex, so a client that sleeps with one held
// can stall there, and that tag is the answer to it. kafka-go v0.4.51 writes there
// (Transport.Dial). sarama v1.61 does not work in bubbles: it shares channels among all of a
// process. The code is in interop/testkit.
//
// The clock stands still for a client that asks in a loop, too, as franz-go does while its leader
// epoch is fenced. So the answers to a client that asks again at the instant of each take time once
// they were many: 0.1 ms more each after 10 errors or empty fetches, 1 ms each after 1,000 of any
// kind. The log of the test names a client that goes on so, and so does a wait in vain.
//
// # A clock that is moved
//
// With Config.Clock the brokers have a clock of their own, and the test and its clients have none
// but the real one. It goes on with real time, so that long polls are answered, and Advance moves
// it at once:
//
//	s := kafkatest.New(t, kafkatest.Config{Clock: true}) // any client, also in another process
//	startWorker(t, s.Addrs())
//	s.WaitGroup("billing", group.StableWith(1))
//	s.Advance(46 * time.Second) // the worker has not been heard of for as long
//
// Sessions end, transactions time out, retention passes, faults' delays and throttles are over, in
// the order in which they are due, and all is done when Advance returns. The brokers run in a
// bubble to which the network is led, so each method of a Server works, but for Cluster, in whose
// place Inside is:
//
//	s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
//		require.NoError(t, c.DeleteTopic(ctx, "orders"))
//	})
//
// Other functions of the test's are run outside of the bubble, and may wait. The examples of
// Server.Advance and Server.Inside are whole tests.
//
//   - Advance is to clients as if all of them had been suspended for as long: they beat no heart
//     meanwhile, and what they send comes when it is over. Who is to stay in a group with a session
//     of 45 s is given time, by several calls of less than that with WaitRequests in between. Other
//     goroutines of the test use the Server meanwhile as ever.
//   - Clients' own timeouts, backoffs and pauses take real time. Where they matter a bubble around
//     test and client is better; so it is where a run has to be the same each time.
//   - The brokers' time is ahead of that of clients then, and records have the time of those.
//   - Connections are not cut for being idle or slow. Waits are bounded by real time.
//   - It needs a *testing.T: testing/synctest makes no bubble for a program or a benchmark.
//   - What a Config.FS or Logger of the test's does runs in the bubble. While it waits for the
//     test, neither time nor anybody else gets on; a call in vain says who waits.
//   - It costs 2 or 3 % of a processor while nothing goes on, 1.6 times as long a start and stop,
//     1.2 times as long a round trip, and nothing that was seen of throughput. An Advance does all
//     that brokers do in that time: a day of one broker that nobody has used takes some
//     milliseconds, of one with a group a tenth of a second, of three with replicas of its offsets
//     half a second. Config.WaitTimeout bounds it, and a failure says how far it came.
//   - What is made in Inside, or by a consumer or producer of it, must not be used outside, and the
//     other way round: see Inside for contexts, and close there what is made there.
//
// # Security
//
//	s := kafkatest.New(t, kafkatest.Config{TLS: true, Users: map[string]string{"alice": "secret"}})
//	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DialTLSConfig(s.TLS()),
//		kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha512Mechanism()))
//
// Certificates are made for the test. DialTLS is for clients that are given a dialer, as with Pipe.
//
// # Limits
//
// Replicas of a partition cannot be moved to other brokers: a leader moves among those it has.
package kafkatest
