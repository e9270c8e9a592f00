package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// start runs a mirror on a goroutine of its own.
func start(t *testing.T, f *mirror.Forward) (ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ch <- f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return ch, func() {
		cancel()
		<-done
	}
}

// stopped requires that err is a *StopError with the given cause, and returns it.
func stopped(t *testing.T, err, cause error) *mirror.StopError {
	t.Helper()
	require.ErrorIs(t, err, cause)
	var stop *mirror.StopError
	require.ErrorAs(t, err, &stop)
	require.Equal(t, "m", stop.Mirror)
	return stop
}

func TestMirrorWithoutAPositionDoesNotBeginInATopicWithRecords(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fill(t, far, 0, 9)
		stopped(t, drain(t, w.local, far), mirror.ErrNoPosition)
		require.Len(t, rows(t, far, "t")[0], 3, "nothing was forwarded")

		cfg := mirror.ForwardConfig{Start: record.Offsets{tp(0): 3, tp(1): 3, tp(2): 3}}
		require.NoError(t, forward(t, w.local, far, cfg).Drain(t.Context()))
		time.Sleep(time.Second)
		same(t, w.local, far)
		require.NoError(t, forward(t, w.local, far, cfg).Drain(t.Context()), "Start has no effect now")
		time.Sleep(time.Second)
		same(t, w.local, far)
	})
}

func tp(p int32) record.TopicPartition { return record.TopicPartition{Topic: "t", Partition: p} }

func TestStartNamesEveryPartitionOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		for _, start := range []record.Offsets{
			{tp(0): 0, tp(1): 0},
			{tp(0): 0, tp(1): 0, tp(2): 0, tp(3): 0},
			{tp(0): 0, tp(1): 0, tp(2): 11},
		} {
			var bad *topic.ConfigError
			require.ErrorAs(t, forward(t, w.local, far, mirror.ForwardConfig{Start: start}).Drain(t.Context()), &bad)
			require.Equal(t, "Start", bad.Key)
		}
		start := record.Offsets{tp(0): consumer.StartEarliest, tp(1): consumer.StartLatest, tp(2): 9}
		require.NoError(t, forward(t, w.local, far, mirror.ForwardConfig{Start: start}).Drain(t.Context()))
		time.Sleep(time.Second)
		got := rows(t, far, "t")
		require.Equal(t, []int{10, 0, 1}, []int{len(got[0]), len(got[1]), len(got[2])})
	})
}

func TestMirrorThatHasLostItsPositionStops(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, drain(t, w.local, far))
		require.NoError(t, far.DeleteTopic(t.Context(), mirror.DefaultPositionTopic))
		stopped(t, drain(t, w.local, far), mirror.ErrNoPosition)
		time.Sleep(time.Second)
		same(t, w.local, far)
	})
}

func TestPositionThatCannotBeReadStopsTheMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, drain(t, w.local, far))
		p, err := producer.New(far, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String(mirror.DefaultPositionTopic, `{"mirror":"m","topic":"t"}`, `{"format":2}`).To(0))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		stopped(t, drain(t, w.local, far), mirror.ErrBadPosition)
	})
}

func TestMirrorOfAnotherTargetTopicDoesNotUseThePosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, drain(t, w.local, far))
		other := func(name string) string { return "other-" + name }
		stopped(t, forward(t, w.local, far, mirror.ForwardConfig{Rename: other}).Drain(t.Context()), mirror.ErrBadPosition)
	})
}

func TestPositionOfAnotherSourceStopsTheMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, drain(t, w.local, far))
		other, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		defer other.Close()
		require.NoError(t, other.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
		fill(t, other, 0, 60)
		err = drain(t, other, far)
		stopped(t, err, mirror.ErrOtherSource)
		require.ErrorContains(t, err, w.local.ClusterID())
	})
}

func TestRecordsThatTheSourceDeletedUnforwardedStopTheMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		require.NoError(t, drain(t, w.local, far))
		fill(t, w.local, 30, 30)
		deleteTo := func(offset int64) {
			_, err := w.local.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(1): offset})
			require.NoError(t, err)
		}
		deleteTo(10) // exactly up to the position
		require.NoError(t, drain(t, w.local, far))
		fill(t, w.local, 60, 30)
		deleteTo(21)
		stop := stopped(t, drain(t, w.local, far), mirror.ErrGap)
		require.Equal(t, [2]int64{1, 20}, [2]int64{int64(stop.Partition), stop.Offset})
		require.ErrorContains(t, stop, "it begins at offset 21")
	})
}

func TestRecordsThatAreDeletedWhileTheMirrorRunsStopIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		ended, _ := start(t, f)
		time.Sleep(5 * time.Second)
		f.Pause()
		time.Sleep(5 * time.Second)
		fill(t, w.local, 30, 30)
		_, err := w.local.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(2): 15})
		require.NoError(t, err)
		f.Resume()
		stop := stopped(t, <-ended, mirror.ErrGap)
		require.Equal(t, [2]int64{2, 10}, [2]int64{int64(stop.Partition), stop.Offset})
	})
}

func TestSourceTopicThatWasCreatedAgainStopsTheMirror(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				far := w.dial()
				fill(t, w.local, 0, 30)
				again := func() {
					require.NoError(t, w.local.DeleteTopic(t.Context(), "t"))
					require.NoError(t, w.local.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
					fill(t, w.local, 100, 60)
				}
				var err error
				if running {
					f := forward(t, w.local, far, mirror.ForwardConfig{})
					ended, _ := start(t, f)
					time.Sleep(5 * time.Second)
					again()
					err = <-ended
				} else {
					require.NoError(t, drain(t, w.local, far))
					again()
					err = drain(t, w.local, far)
				}
				stopped(t, err, mirror.ErrTopicReplaced)
				time.Sleep(time.Second)
				require.Len(t, rows(t, far, "t")[0], 10, "no record of the new topic was forwarded")
			})
		})
	}
}

func TestTargetTopicThatWasDeletedStopsTheMirror(t *testing.T) {
	for _, running := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint("running ", running, ", created again ", again), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					far := w.dial()
					fill(t, w.local, 0, 30)
					replace := func() {
						require.NoError(t, far.DeleteTopic(t.Context(), "t"))
						if again {
							require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
						}
					}
					var err error
					if running {
						ended, _ := start(t, forward(t, w.local, far, mirror.ForwardConfig{}))
						time.Sleep(5 * time.Second)
						replace()
						err = <-ended
					} else {
						require.NoError(t, drain(t, w.local, far))
						replace()
						err = drain(t, w.local, far)
					}
					stopped(t, err, mirror.ErrTopicReplaced)
				})
			})
		}
	}
}

func TestSourceThatDoesNotHaveTheTopicIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f := forward(t, w.local, w.dial(), mirror.ForwardConfig{Topics: []string{"tt"}})
		stopped(t, f.Run(t.Context()), replication.ErrUnknownTopic)
	})
}

// The source loses the last records in an unclean election, and gets as many others.
func TestSourceThatLostForwardedRecordsStopsTheMirror(t *testing.T) {
	for _, running := range []bool{false, true} {
		for _, n := range []int{0, 3, 5, 12} {
			t.Run(fmt.Sprint("running ", running, ", ", n, " new records"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					from, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
					require.NoError(t, err)
					defer func() { require.NoError(t, from.Close()) }()
					to, err := strata.Open(strata.Config{})
					require.NoError(t, err)
					defer func() { require.NoError(t, to.Close()) }()
					require.NoError(t, from.CreateTopic(t.Context(), "t", topic.Config{
						Assignment: [][]int32{{1, 2}}, Properties: map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
					}))
					write := func(n int) {
						p, err := producer.New(from, producer.Config{})
						require.NoError(t, err)
						for i := range n {
							_, err = p.Send(t.Context(), record.String("t", "", fmt.Sprint(i)).To(0))
							require.NoError(t, err)
						}
						require.NoError(t, p.Close())
					}
					lose := func() {
						require.NoError(t, from.KillBroker(1))
						require.NoError(t, from.StartBroker(t.Context(), 2))
						write(n)
					}
					write(5)
					require.NoError(t, from.StopBroker(t.Context(), 2))
					write(5) // broker 2 does not get them
					if running {
						ended, _ := start(t, forward(t, from, to, mirror.ForwardConfig{}))
						time.Sleep(5 * time.Second)
						lose()
						err = <-ended
					} else {
						require.NoError(t, drain(t, from, to))
						lose()
						err = drain(t, from, to)
					}
					stop := stopped(t, err, mirror.ErrTruncated)
					require.EqualValues(t, 10, stop.Offset)
				})
			})
		}
	}
}

func TestSecondMirrorWithTheSameIDEndsTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		fill(t, w.local, 0, 30)
		first, _ := start(t, forward(t, w.local, w.dial(), mirror.ForwardConfig{}))
		time.Sleep(5 * time.Second)
		second, stop := start(t, forward(t, w.local, w.dial(), mirror.ForwardConfig{}))
		time.Sleep(5 * time.Second)
		fill(t, w.local, 30, 300)
		err := <-first
		stopped(t, err, mirror.ErrFenced)
		require.ErrorContains(t, err, "another mirror with this ID has started")
		time.Sleep(5 * time.Second)
		stop()
		require.NoError(t, <-second)
		same(t, w.local, w.dial())
	})
}

func TestNumbersOfPartitionsMustBeEqual(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		ended, _ := start(t, forward(t, w.local, far, mirror.ForwardConfig{}))
		time.Sleep(5 * time.Second)
		require.NoError(t, w.local.AddPartitions(t.Context(), "t", 4))
		p, err := producer.New(w.local, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("t", "", "new").To(3))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		var bad *topic.ConfigError
		require.ErrorAs(t, <-ended, &bad)
		require.Equal(t, "partitions", bad.Key)
		require.ErrorAs(t, drain(t, w.local, far), &bad)

		require.NoError(t, far.AddPartitions(t.Context(), "t", 4))
		require.NoError(t, drain(t, w.local, far))
		time.Sleep(time.Second)
		same(t, w.local, far)
		require.Len(t, rows(t, far, "t")[3], 1, "a partition that was added is forwarded from its first record")
	})
}

func TestUnsuitableTopicsOfTheTargetAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		var bad *topic.ConfigError
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, Properties: map[string]string{"message.timestamp.type": "LogAppendTime"}}))
		require.ErrorAs(t, drain(t, w.local, far), &bad)
		require.Equal(t, "message.timestamp.type", bad.Key)

		require.NoError(t, far.CreateTopic(t.Context(), "positions", topic.Config{Properties: map[string]string{"cleanup.policy": "compact,delete"}}))
		err := forward(t, w.local, far, mirror.ForwardConfig{PositionTopic: "positions"}).Drain(t.Context())
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "cleanup.policy", bad.Key)
	})
}

func TestBadConfigurationIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		long := make([]byte, 201)
		rename := func(to string) func(string) string { return func(string) string { return to } }
		for _, c := range []struct {
			key string
			to  mirror.Target
			cfg mirror.ForwardConfig
		}{
			{"ID", nil, mirror.ForwardConfig{Topics: []string{"t"}}},
			{"ID", nil, mirror.ForwardConfig{ID: string(long), Topics: []string{"t"}}},
			{"Topics", nil, mirror.ForwardConfig{ID: "m"}},
			{"Topics", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t", "t"}}},
			{"Topics", w.local, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}}},
			{"Topics", w.local, mirror.ForwardConfig{ID: "m", Topics: []string{"t", "u"}, Rename: func(name string) string { return map[string]string{"t": "u", "u": "v"}[name] }}},
			{"Topics", nil, mirror.ForwardConfig{ID: "m", Topics: []string{mirror.DefaultPositionTopic}}},
			{"Rename", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t", "u"}, Rename: rename("x")}},
			{"Rename", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, Rename: rename("a/b")}},
			{"PositionTopic", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, PositionTopic: "a/b"}},
			{"Start", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, Start: record.Offsets{{Topic: "u"}: 1}}},
			{"Start", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, Start: record.Offsets{tp(0): -7}}},
			{"RecordsPerSecond", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, RecordsPerSecond: -1}},
			{"BytesPerSecond", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, BytesPerSecond: -1}},
			{"ReplicationFactor", nil, mirror.ForwardConfig{ID: "m", Topics: []string{"t"}, ReplicationFactor: -1}},
		} {
			if c.to == nil {
				c.to = w.server.Cluster()
			}
			_, err := mirror.NewForward(w.local, c.to, c.cfg)
			var bad *topic.ConfigError
			require.ErrorAs(t, err, &bad, "%+v", c.cfg)
			require.Equal(t, c.key, bad.Key, "%+v", c.cfg)
		}
	})
}

// A request for the transactional id that arrives late takes it from the mirror that sent it.
func TestLateRequestOfItsOwnDoesNotEndAMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		fill(t, w.local, 0, 30)
		f := forward(t, w.local, w.dial(), mirror.ForwardConfig{})
		ended, stop := start(t, f)
		time.Sleep(5 * time.Second)
		_, _, err := w.server.Cluster().TxnCoordinator().InitProducerID(t.Context(), "strata-mirror-m", time.Minute, transaction.NoProducer)
		require.NoError(t, err)
		fill(t, w.local, 30, 300)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 0, f.Stats().Lag)
		require.ErrorIs(t, f.Stats().LastError, mirror.ErrFenced)
		stop()
		require.NoError(t, <-ended)
		same(t, w.local, w.dial())
	})
}

func TestSourceThatWasRestoredFromAnOlderBackupStopsTheMirror(t *testing.T) {
	for _, n := range []int{0, 5, 20} {
		t.Run(fmt.Sprint(n, " new records"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.Mem()
				from, err := strata.Open(strata.Config{FS: disk, Dir: "data"})
				require.NoError(t, err)
				to, err := strata.Open(strata.Config{})
				require.NoError(t, err)
				defer func() { require.NoError(t, to.Close()) }()
				require.NoError(t, from.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
				write := func(from *strata.Cluster, first, n int) {
					p, err := producer.New(from, producer.Config{})
					require.NoError(t, err)
					for i := range n {
						_, err = p.Send(t.Context(), record.String("t", "", fmt.Sprint(first+i)))
						require.NoError(t, err)
					}
					require.NoError(t, p.Close())
				}
				write(from, 0, 5)
				require.NoError(t, from.Backup(t.Context(), "copy"))
				require.NoError(t, drain(t, from, to), "a mirror that continues with what it forwarded")
				write(from, 5, 5)
				require.NoError(t, drain(t, from, to))
				require.NoError(t, from.Close())

				restored, err := strata.Open(strata.Config{FS: disk, Dir: "copy"})
				require.NoError(t, err)
				defer func() { require.NoError(t, restored.Close()) }()
				write(restored, 1000, n)
				stop := stopped(t, drain(t, restored, to), mirror.ErrTruncated)
				require.EqualValues(t, 10, stop.Offset)
			})
		})
	}
}
