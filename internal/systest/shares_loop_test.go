package systest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
)

// A tally counts how often each job was run. It is safe for concurrent use.
type tally struct {
	mu   sync.Mutex
	runs map[string]int
}

// ran counts a run, and returns the number of different jobs that were run.
func (n *tally) ran(r consumer.ShareRecord) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runs == nil {
		n.runs = map[string]int{}
	}
	n.runs[string(r.Value)]++
	return len(n.runs)
}

func (n *tally) requireEachOnce(t *testing.T, jobs int) {
	t.Helper()
	require.Len(t, n.runs, jobs)
	for job, runs := range n.runs {
		require.Equal(t, 1, runs, "job %s", job)
	}
}

// Checklist row S32: all jobs together take longer than a lock lasts.
func TestEachJobRunsOnceWhenManyAreWaiting(t *testing.T) {
	for _, x := range []struct {
		workers, jobs int
		each, within  time.Duration
	}{
		{1, 200, 400 * time.Millisecond, 81 * time.Second},
		{1, 90, 200 * time.Millisecond, 19 * time.Second},
		// No worker is idle while another one has acquired waiting jobs.
		{3, 30, 10 * time.Second, 101 * time.Second},
		{2, 8, 29 * time.Second, 117 * time.Second},
	} {
		for _, explicit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d workers, %d jobs of %v, explicit=%t", x.workers, x.jobs, x.each, explicit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := queue(t, strata.Config{}, 1, x.jobs)
					defer func() { require.NoError(t, c.Close()) }()
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					var done tally
					began := time.Now()
					var workers sync.WaitGroup
					for range x.workers {
						workers.Go(func() {
							s := worker(t, c, consumer.ShareConfig{Explicit: explicit})
							defer s.Close()
							for r, err := range s.Records(ctx) {
								if err != nil {
									t.Error(err)
									return
								}
								time.Sleep(x.each)
								if explicit {
									if err := s.Accept(ctx, r); err != nil {
										t.Error(err)
									}
								}
								if done.ran(r) == x.jobs {
									// Time for jobs that would run again.
									time.AfterFunc(10*time.Minute, cancel)
									if took := time.Since(began); took > x.within {
										t.Errorf("all was done after %v", took)
									}
								}
							}
						})
					}
					workers.Wait()
					done.requireEachOnce(t, x.jobs)
				})
			})
		}
	}
}

// Checklist row S32.
func TestARecordIsAcceptedWhenItsLoopContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{}, 1, 20)
		defer func() { require.NoError(t, c.Close()) }()
		coordinator, err := c.Backend().Shares()
		require.NoError(t, err)
		topics, err := c.Metadata(t.Context(), "jobs")
		require.NoError(t, err)
		s := worker(t, c, consumer.ShareConfig{})
		defer s.Close()
		for r, err := range s.Records(t.Context()) {
			require.NoError(t, err)
			synctest.Wait() // acceptances are stored
			state, err := coordinator.StateSummary(t.Context(), share.Key{Group: "workers", TopicID: topics.Topics["jobs"].ID})
			require.NoError(t, err)
			require.Equal(t, r.Offset, state.Start, "all before it is done")
			if r.Offset == 19 {
				break
			}
		}
	})
}

// Checklist row S33: workers end at their first job, in order or with an error.
func TestARecordThatNoLoopHasBegunWasNotDelivered(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, explicit := range []bool{false, true} {
			t.Run(fmt.Sprintf("fails=%t, explicit=%t", fails, explicit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := queue(t, strata.Config{Shares: share.Config{MaxDeliveryCount: 1}}, 1, 10)
					defer func() { require.NoError(t, c.Close()) }()
					var done tally
					began := time.Now()
					s := worker(t, c, consumer.ShareConfig{Explicit: explicit})
					for range 10 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						n := 0
						for r, err := range s.Records(ctx) {
							require.NoError(t, err)
							require.Equal(t, 1, r.Deliveries)
							done.ran(r)
							if explicit {
								require.NoError(t, s.Accept(ctx, r))
							}
							if n++; n < 5 && len(done.runs) < 10 {
								continue // so that the loop acquires several jobs ahead
							}
							if fails {
								break
							}
							cancel()
						}
						cancel()
						if len(done.runs) == 10 {
							break
						}
						if !explicit {
							require.NoError(t, s.Close())
							s = worker(t, c, consumer.ShareConfig{})
						}
					}
					require.NoError(t, s.Close())
					done.requireEachOnce(t, 10)
					require.Less(t, time.Since(began), 10*time.Second, "no lock is waited for")
				})
			})
		}
	}
}

// Checklist row S33: one worker acquires records ahead, and then processes one for longer than
// their locks last.
func TestALoopPassesOverRecordsThatAnotherWorkerHasByThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{Shares: share.Config{LockDuration: 300 * time.Millisecond}}, 1, 40)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, b := worker(t, c, consumer.ShareConfig{}), worker(t, c, consumer.ShareConfig{})
		defer a.Close()
		defer b.Close()
		var done tally
		var workers sync.WaitGroup
		slow := make(chan struct{})
		workers.Go(func() {
			<-slow
			for r, err := range b.Records(ctx) {
				if err != nil || r.Deliveries != 1 {
					t.Error(r.Offset, r.Deliveries, err)
				}
				if done.ran(r) == 40 {
					time.AfterFunc(10*time.Minute, cancel)
				}
			}
		})
		for r, err := range a.Records(ctx) {
			require.NoError(t, err)
			if done.ran(r) == 9 {
				close(slow)
				for range 4 {
					time.Sleep(150 * time.Millisecond)
					require.NoError(t, a.Renew(ctx, r))
				}
			}
		}
		workers.Wait()
		done.requireEachOnce(t, 40)
	})
}

// Checklist row S34.
func TestCloseWaitsForTheLoopOfAWorker(t *testing.T) {
	for _, inside := range []bool{false, true} {
		t.Run(fmt.Sprintf("inside=%t", inside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := queue(t, strata.Config{}, 1, 4)
				defer func() { require.NoError(t, c.Close()) }()
				a := worker(t, c, consumer.ShareConfig{})
				closed := make(chan error, 1)
				got := 0
				for r, err := range a.Records(t.Context()) {
					require.NoError(t, err)
					if got++; r.Offset == 1 {
						if inside {
							closed <- a.Close()
							continue
						}
						go func() { closed <- a.Close() }()
						time.Sleep(5 * time.Second)
					}
				}
				require.NoError(t, <-closed)
				require.Equal(t, 2, got)
				b := worker(t, c, consumer.ShareConfig{})
				defer b.Close()
				recs, err := b.Poll(t.Context())
				require.NoError(t, err)
				want := []string{"2", "3"}
				if inside {
					want = []string{"1", "2", "3"}
				}
				require.Equal(t, want, valuesOf(recs))
				for _, r := range recs {
					require.Equal(t, 1, r.Deliveries)
				}
			})
		})
	}
}

// Checklist row S32.
func TestAJobThatFailsIsCountedAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{Shares: share.Config{MaxDeliveryCount: 5}}, 1, 10)
		defer func() { require.NoError(t, c.Close()) }()
		var done tally
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s := worker(t, c, consumer.ShareConfig{})
			for r, err := range s.Records(ctx) {
				require.NoError(t, err)
				done.ran(r)
				require.Equal(t, done.runs[string(r.Value)], r.Deliveries, "job %s", r.Value)
				if string(r.Value) == "2" {
					break
				}
			}
			cancel()
			require.NoError(t, s.Close())
		}
		require.Equal(t, map[string]int{"0": 1, "1": 1, "2": 5, "3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1, "9": 1}, done.runs)
	})
}

// Checklist row S33: a record counts as delivered when its member begins it under a valid lock,
// not when it is acquired.
func TestAPollReturnsWhatItsMemberStillHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queue(t, strata.Config{Shares: share.Config{MaxDeliveryCount: 2}}, 1, 3)
		defer func() { require.NoError(t, c.Close()) }()
		coordinator, err := c.Backend().Shares()
		require.NoError(t, err)
		topics, err := c.Metadata(t.Context(), "jobs")
		require.NoError(t, err)
		tp := share.TopicPartition{TopicPartition: record.TopicPartition{Topic: "jobs"}, TopicID: topics.Topics["jobs"].ID}
		fetch := func(member string) share.Fetched {
			f, err := coordinator.Fetch(t.Context(), share.FetchRequest{Group: "workers", Member: member, Partitions: []share.TopicPartition{tp}, MaxRecords: 10, BeginLater: true})
			require.NoError(t, err)
			return f
		}
		begin := func(member string, first, last int64) error {
			return coordinator.Begin(t.Context(), "workers", member, tp, first, last)
		}
		require.ErrorIs(t, begin("a", 0, 0), share.ErrInvalidRecordState, "nothing is acquired")
		for range 5 { // no delivery: the limit is not reached
			require.Equal(t, []share.Delivery{{First: 0, Last: 2, Count: 1}}, fetch("a").Deliveries)
			time.Sleep(30 * time.Second)
			require.ErrorIs(t, begin("a", 0, 2), share.ErrInvalidRecordState, "the locks have passed")
		}
		fetch("a")
		time.Sleep(29 * time.Second)
		require.ErrorIs(t, begin("b", 1, 1), share.ErrInvalidRecordState)
		require.NoError(t, begin("a", 1, 1))
		time.Sleep(time.Second)
		require.ErrorIs(t, begin("a", 0, 1), share.ErrInvalidRecordState, "0 is not locked any more, 1 is")
		require.Equal(t, []share.Delivery{{First: 0, Last: 0, Count: 1}, {First: 2, Last: 2, Count: 1}}, fetch("b").Deliveries)
		released := time.Now()
		require.NoError(t, coordinator.Acknowledge(t.Context(), "workers", "b", tp, []share.Ack{{First: 0, Last: 0, Types: []share.AckType{share.Release}}}))
		require.Equal(t, []share.Delivery{{First: 0, Last: 0, Count: 1}}, fetch("c").Deliveries)
		require.Less(t, time.Since(released), time.Second)
		require.Equal(t, []share.Delivery{{First: 1, Last: 1, Count: 2}}, fetch("d").Deliveries, "its lock lasts since it has begun")
		require.Equal(t, 28*time.Second+time.Second, time.Since(released).Round(time.Second))
	})
}
