package systest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// queue opens a cluster with the topic "jobs" of so many partitions and so many jobs.
func queue(t *testing.T, cfg strata.Config, partitions, jobs int) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "jobs", topic.Config{Partitions: partitions}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	for i := range jobs {
		_, err := p.Send(t.Context(), record.String("jobs", "", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	return c
}

func worker(t *testing.T, c *strata.Cluster, cfg consumer.ShareConfig) *consumer.Share {
	t.Helper()
	cfg.Group, cfg.Topics = "workers", []string{"jobs"}
	s, err := consumer.NewShare(c, cfg)
	require.NoError(t, err)
	return s
}

func valuesOf(recs []consumer.ShareRecord) (all []string) {
	for _, r := range recs {
		all = append(all, string(r.Value))
	}
	return all
}

// Checklist row S20: a queue delivers the records that ReadCommitted readers see, each once, in
// any pieces. It delivers no record of a transaction before its end.
func TestAQueueHasWhatWasCommitted(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			c := queue(t, strata.Config{}, 1, 1)
			defer func() { require.NoError(t, c.Close()) }()
			producers := make([]*producer.Producer, 3)
			open := make([]*producer.Txn, len(producers))
			for i := range producers {
				var err error
				producers[i], err = producer.New(c, producer.Config{TransactionalID: fmt.Sprint("p", i)})
				require.NoError(t, err)
				defer producers[i].Close()
			}
			plain, err := producer.New(c, producer.Config{})
			require.NoError(t, err)
			defer plain.Close()
			w := worker(t, c, consumer.ShareConfig{MaxRecords: 1 + int(seed), Explicit: true})
			defer w.Close()
			var got []string
			poll := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				recs, err := w.Poll(ctx)
				for _, r := range recs {
					if rng.IntN(5) == 0 && r.Deliveries < 3 {
						require.NoError(t, w.Release(t.Context(), r))
						continue
					}
					require.NoError(t, w.Accept(t.Context(), r))
					got = append(got, string(r.Value))
				}
				return err == nil
			}
			end := func(i int, commit bool) {
				if commit {
					require.NoError(t, open[i].Commit(t.Context()))
				} else {
					require.NoError(t, open[i].Abort(t.Context()))
				}
				open[i] = nil
			}
			for n := range 120 {
				i := rng.IntN(len(producers))
				switch k := rng.IntN(8); {
				case k < 2:
					_, err := plain.Send(t.Context(), record.String("jobs", "", fmt.Sprint("plain ", n)))
					require.NoError(t, err)
				case k == 2:
					poll()
				case open[i] == nil:
					open[i], err = producers[i].Begin(t.Context())
					require.NoError(t, err)
				case k < 5:
					end(i, k == 3)
				default:
					require.NoError(t, open[i].Send(t.Context(), record.String("jobs", "", fmt.Sprint(i, " ", n))))
					require.NoError(t, producers[i].Flush(t.Context()))
				}
			}
			for i := range open {
				if open[i] != nil {
					end(i, i == 0)
				}
			}
			for poll() {
			}
			var want []string
			synctest.Wait()
			for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "jobs"}) {
				require.NoError(t, err)
				want = append(want, string(r.Value))
			}
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got)
		})
	}
}

// Checklist row S20.
func TestAQueueMayHaveWhatWasNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{}, 1, 1)
		defer func() { require.NoError(t, c.Close()) }()
		p, err := producer.New(c, producer.Config{TransactionalID: "p"})
		require.NoError(t, err)
		defer p.Close()
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String("jobs", "", "open")))
		require.NoError(t, p.Flush(t.Context()))
		w := worker(t, c, consumer.ShareConfig{Isolation: consumer.ReadUncommitted})
		defer w.Close()
		recs, err := w.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"0", "open"}, valuesOf(recs))
		_, err = consumer.NewShare(c, consumer.ShareConfig{Group: "g", Topics: []string{"jobs"}, Isolation: 7})
		var bad *topic.ConfigError
		require.ErrorAs(t, err, &bad)
	})
}

// Checklist row S21.
func TestAQueueGoesByItsOwnConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{}, 1, 1)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.Backend().AlterGroupConfig(t.Context(), group.ConfigAlteration{Group: "workers", Changes: []replication.ConfigChange{
			{Key: "share.record.lock.duration.ms", Value: "17000"}, {Key: "share.renew.acknowledge.enable", Value: "false"},
		}}))
		a, b := worker(t, c, consumer.ShareConfig{}), worker(t, c, consumer.ShareConfig{})
		defer a.Close()
		defer b.Close()
		recs, err := a.Poll(t.Context())
		require.NoError(t, err)
		polled := time.Now()
		require.ErrorIs(t, a.Renew(t.Context(), recs...), share.ErrRenewalDisabled)
		recs, err = b.Poll(t.Context())
		require.NoError(t, err)
		require.Len(t, recs, 1)
		require.WithinDuration(t, polled.Add(17*time.Second), time.Now(), time.Second)
	})
}

// Checklist row S11.
func TestMoreWorkersThanPartitionsShareAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{}, 1, 400)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		done, by := map[string]int{}, map[int]int{}
		var workers sync.WaitGroup
		for w := range 8 {
			workers.Go(func() {
				s := worker(t, c, consumer.ShareConfig{MaxRecords: 5})
				defer s.Close()
				for r, err := range s.Records(ctx) {
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					done[string(r.Value)]++
					by[w]++
					if len(done) == 400 {
						time.AfterFunc(time.Second, cancel)
					}
					mu.Unlock()
				}
			})
		}
		workers.Wait()
		require.Len(t, done, 400)
		for v, n := range done {
			require.Equal(t, 1, n, v)
		}
		require.Len(t, by, 8, "every worker has something to do")
		s := worker(t, c, consumer.ShareConfig{})
		defer s.Close()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := s.Poll(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "all is done")
	})
}

// Checklist row S9: a worker that polls while another one reads the log, here from a slow disk, is
// notified of the remaining records.
func TestWorkersThatComeWhileOneReadsHaveWhatItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		require.NoError(t, queue(t, strata.Config{Dir: "data", FS: disk}, 1, 8).Close())
		slow := vfs.Faulty(disk)
		c, err := strata.Open(strata.Config{Dir: "data", FS: slow})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		slow.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", Times: vfs.Always, Delay: time.Millisecond})
		began := time.Now()
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				s := worker(t, c, consumer.ShareConfig{MaxRecords: 1})
				defer s.Close()
				recs, err := s.Poll(t.Context())
				if err != nil || len(recs) != 1 {
					t.Error(recs, err)
					return
				}
				if err := s.Accept(t.Context(), recs...); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		require.Less(t, time.Since(began), time.Second)
	})
}

// Checklist row S11: the records that the loop has finished are accepted. The one at which it ends
// is not.
func TestALoopThatEndsGivesBackWhatItHasNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		c := queue(t, strata.Config{Dir: "data", FS: disk}, 1, 6)
		a := worker(t, c, consumer.ShareConfig{})
		for r, err := range a.Records(t.Context()) {
			require.NoError(t, err)
			if string(r.Value) == "2" {
				break
			}
		}
		b := worker(t, c, consumer.ShareConfig{})
		recs, err := b.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"2", "3", "4", "5"}, valuesOf(recs))
		require.Equal(t, 2, recs[0].Deliveries)
		require.NoError(t, b.Accept(t.Context(), recs[1]))
		require.NoError(t, b.Close())
		closed := time.Now()
		recs, err = a.Poll(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(closed), time.Second, "what is left is a's at once")
		require.Equal(t, []string{"2", "4", "5"}, valuesOf(recs))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = a.Poll(ctx) // accepts them
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, a.Close())
		_, err = a.Poll(t.Context())
		require.ErrorIs(t, err, consumer.ErrClosed)
		require.NoError(t, c.Close())

		c, err = strata.Open(strata.Config{Dir: "data", FS: disk})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		d := worker(t, c, consumer.ShareConfig{})
		defer d.Close()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = d.Poll(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "accepted over a restart")
	})
}

// Checklist row S12.
func TestAWorkerSaysOfEachRecordWhatCameOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{Shares: share.Config{LockDuration: 10 * time.Second, MaxDeliveryCount: 3}}, 1, 6)
		defer func() { require.NoError(t, c.Close()) }()
		s := worker(t, c, consumer.ShareConfig{Explicit: true})
		defer s.Close()
		recs, err := s.Poll(t.Context())
		require.NoError(t, err)
		require.Len(t, recs, 6)
		require.NoError(t, s.Accept(t.Context(), recs[4], recs[0]))
		require.NoError(t, s.Reject(t.Context(), recs[1]))
		require.NoError(t, s.Release(t.Context(), recs[2]))
		time.Sleep(6 * time.Second)
		require.NoError(t, s.Renew(t.Context(), recs[5]))
		again, err := s.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, valuesOf(again), "nothing else is available: nothing was accepted by polling")
		began := time.Now()
		again, err = s.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"3"}, valuesOf(again), "its lock has passed")
		require.Equal(t, 4*time.Second, time.Since(began))
		require.ErrorIs(t, s.Accept(t.Context(), recs[4], recs[5]), consumer.ErrNotAcquired)
		require.ErrorIs(t, s.Accept(t.Context(), recs[5]), consumer.ErrNotAcquired, "it was accepted beside one that could not be")
		require.ErrorIs(t, s.Accept(t.Context(), consumer.ShareRecord{}), consumer.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		most := map[string]int{}
		for err == nil {
			again, err = s.Poll(ctx)
			for _, r := range again {
				most[string(r.Value)] = max(most[string(r.Value)], r.Deliveries)
			}
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[string]int{"2": 3, "3": 3}, most, "delivered three times, and given up")
	})
}

// Checklist row S12.
func TestAShareThatMakesNoSenseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{}, 1, 0)
		for _, cfg := range []consumer.ShareConfig{{Topics: []string{"jobs"}}, {Group: "g"}, {Group: "g", Topics: []string{"jobs"}, MaxRecords: -1},
			{Group: "g", Topics: []string{"jobs"}, Reset: consumer.Fail()}} {
			_, err := consumer.NewShare(c, cfg)
			var refused *topic.ConfigError
			require.ErrorAs(t, err, &refused, "%+v", cfg)
		}
		_, err := consumer.NewShare(c, consumer.ShareConfig{Group: "g", Topics: []string{"jbos"}})
		require.ErrorIs(t, err, consumer.ErrUnknownTopic)
		_, err = strata.Open(strata.Config{Shares: share.Config{MaxDeliveryCount: 40_000, LockDuration: -1}})
		var refused *topic.ConfigError
		require.ErrorAs(t, err, &refused)
		require.NoError(t, c.Close())
		_, err = consumer.NewShare(c, consumer.ShareConfig{Group: "g", Topics: []string{"jobs"}})
		require.ErrorIs(t, err, share.ErrClosed)
	})
}
