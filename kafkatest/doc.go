// Package kafkatest runs Kafka brokers inside a test, as net/http/httptest runs web servers. Any
// Kafka client can connect to them, and they fail on demand. Use it to test code that uses a Kafka
// client. Use package strata to embed brokers in a program, and package kfake for tests that were
// written for franz-go's kfake.
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
//   - New returns brokers that serve. At the end of the test they are closed, and a goroutine that
//     they leave behind fails the test.
//   - They are the brokers of packages kafka and strata, not an imitation: with Kafka's responses,
//     and durable with a directory.
//   - Brokers can be stopped, killed, started, added and removed while clients are connected. A
//     killed broker sends no more responses and loses all unsynced data.
//   - With Config.Replicas partitions have replicas. Leaders can be moved, shuffled and killed.
//     Links between brokers can be cut in one or both directions, slowed, paused and mended.
//   - Several brokers form one cluster, each at its own address. A broker returns
//     NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR if another broker is the leader or coordinator.
//   - Any number of servers can run at the same time; they share nothing.
//   - A test needs no sleep: WaitRecords, WaitGroup, WaitCommitted, WaitRequests and Injected.Wait
//     return as soon as their condition holds. Otherwise they fail the test, with the last state
//     and the last requests.
//   - A Fault hits exactly the requests that it selects, counts them, and returns errors as Kafka
//     does in every version. Disk faults come from package vfs: Config.FS takes a vfs.MemFS or a
//     vfs.FaultFS.
//
// # Checking client code
//
//	kafkatest.Check(t, kafkatest.Code{Produce: produce, Consume: consume})
//
// Check runs client code with one fault after the other, and reports the records that were lost,
// duplicated and reordered in each case: of producers, consumers, programs that read and write in
// transactions, and members of share groups. See its examples.
//
// # Virtual time
//
// With Config.Pipe a server and its network are in memory and work in a testing/synctest bubble.
// There a session timeout of 45 s costs no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		s := kafkatest.New(t, kafkatest.Config{Pipe: true})
//		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial))
//
// Create the server in the bubble, and close the client before the test function ends, because all
// goroutines of a bubble must end. Producers and consumers of this module work in a bubble (give
// them Server.Cluster). franz-go v1.22 works without its build tag synctests: producing, group
// consuming, commits, session timeouts. The clock of a bubble stands still while a goroutine waits
// for a mutex, so a client that sleeps while it holds one can stall; the tag avoids that. kafka-go
// v0.4.51 can write (Transport.Dial). sarama v1.61 does not work in bubbles, because it shares
// channels in the whole process. The code is in interop/testkit.
//
// The clock also stands still while a client sends requests in a loop without a pause, as franz-go
// does while its leader epoch is fenced. So if a client sends each request at the instant of the
// previous response, responses are delayed: by 0.1 ms more each after 10 errors or empty fetches,
// by 1 ms each after 1,000 responses of any kind. The log of the test names such a client, and so
// does a failed wait.
//
// # The timeline of a failed test
//
// A server whose test has failed logs its timeline in at most 40 lines: the calls of the test, the
// requests that a fault hit, the first error of each kind, and the events of the cluster. With go
// test -artifacts, or a directory in the environment variable KAFKATEST_ARTIFACTS, it also writes a
// picture of them, an HTML file. See Server.Timeline.
//
// # A clock that the test moves
//
// With Config.Clock the brokers have their own clock, while the test and its clients use real time.
// The clock runs with real time, so that long polls are answered, and Advance moves it forward at
// once:
//
//	s := kafkatest.New(t, kafkatest.Config{Clock: true}) // any client, also in another process
//	startWorker(t, s.Addrs())
//	s.WaitGroup("billing", group.StableWith(1))
//	s.Advance(46 * time.Second) // no heartbeat of the worker in this time
//
// Sessions, transactions, retention, delays of faults and throttles expire in the order of their
// times, and all of that is done when Advance returns. The brokers run in a bubble with a
// connection to the outside network. Each method of a Server works, except Cluster, which Inside
// replaces:
//
//	s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
//		require.NoError(t, c.DeleteTopic(ctx, "orders"))
//	})
//
// All other functions of the test, such as Config.Listen, run outside of the bubble, and may wait.
// The examples of Server.Advance and Server.Inside are complete tests.
//
//   - To clients an Advance looks as if all of them had been suspended: they send no heartbeats
//     during it, and their requests arrive when it ends. To keep a member with a session timeout of
//     45 s in its group, advance in shorter steps with WaitRequests in between. Other goroutines of
//     the test can use the Server during an Advance.
//   - Timeouts, backoffs and pauses of clients take real time. If they matter, or if each run must
//     be the same, a bubble around test and client is better.
//   - After an Advance the brokers' time is ahead of the clients', and records have the clients'
//     time.
//   - Connections are not cut for being idle or slow. Waits are bounded by real time.
//   - It needs a *testing.T: testing/synctest has no bubble for a program or a benchmark.
//   - Config.FS and Config.Logger are called in the bubble. While one of them waits for the test,
//     the brokers and their time stand still; a failed call names the waiting goroutine.
//   - It costs 2 or 3 % of a processor when idle. Start and stop take 1.6 times as long, a round
//     trip 1.2 times; throughput was not measurably lower. An Advance does all work of the brokers
//     in that time: a day takes some milliseconds for one unused broker, a tenth of a second for
//     one with a group, half a second for three with replicated offsets. Config.WaitTimeout bounds
//     it, and a failure reports how far it got.
//   - Values that are created in Inside, or by a consumer or producer there, must not be used
//     outside, and the other way round. See Inside for contexts. Close in Inside whatever is
//     created there.
//
// # Security
//
//	s := kafkatest.New(t, kafkatest.Config{TLS: true, Users: map[string]string{"alice": "secret"}})
//	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DialTLSConfig(s.TLS()),
//		kgo.SASL(scram.Auth{User: "alice", Pass: "secret"}.AsSha512Mechanism()))
//
// Certificates are created for the test. DialTLS is for clients with a dialer option, as with Pipe.
//
// # Limits
//
// Replicas of a partition cannot be moved to other brokers. Its leader can move among its replicas.
package kafkatest
