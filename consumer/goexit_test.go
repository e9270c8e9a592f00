package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// exits are the ways in which a callback does not return.
var exits = map[string]func(){"panic": func() { panic("no") }, "goexit": runtime.Goexit}

// aside calls fn on its own goroutine and returns when that has ended. fn may end the goroutine,
// as a failing require.X does.
func aside(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		fn()
	}()
	<-done
}

func TestRunEndsWithAnErrorWhenDeadLetterDoesNotReturn(t *testing.T) {
	for name, leave := range exits {
		for what, handler := range map[string]consumer.Handler{
			"after an error":           func(context.Context, record.Record) error { return errors.New("no luck") },
			"after the handler's exit": func(context.Context, record.Record) error { runtime.Goexit(); return nil },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 3)
					c := open(t, b, config(consumer.CommitProcessed))
					began := time.Now()
					err := c.Run(hour(t), handler, consumer.RunConfig{DeadLetter: func(context.Context, record.Record, error) error {
						leave()
						return nil
					}})
					var failed *consumer.PartitionError
					require.ErrorAs(t, err, &failed)
					require.Equal(t, int64(0), failed.Offset)
					require.ErrorContains(t, err, "dead letter")
					require.NotErrorIs(t, err, consumer.ErrDrainTimeout)
					if name == "goexit" {
						require.ErrorIs(t, err, consumer.ErrHandlerExit)
					}
					require.Less(t, time.Since(began), 10*time.Second)
					require.NoError(t, c.Close())
					require.Empty(t, committed(t, b, "g"))
				})
			})
		}
	}
}

func TestRunLeavesNoWorkerBehindWhenACallbackDoesNotReturn(t *testing.T) {
	for name, leave := range exits {
		for _, which := range []string{"OnAssigned", "OnRevoked", "StartAt"} {
			t.Run(name+" in "+which, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 3)
					once := true
					call := func(at string) {
						if once && at == which {
							once = false
							leave()
						}
					}
					cfg := config(consumer.CommitProcessed)
					cfg.OnAssigned = func(context.Context, []record.TopicPartition) { call("OnAssigned") }
					revoked := 0
					cfg.OnRevoked = func(context.Context, []record.TopicPartition) {
						call("OnRevoked")
						revoked++
					}
					cfg.StartAt = func(context.Context, []record.TopicPartition) (record.Offsets, error) {
						call("StartAt")
						return nil, nil
					}
					c := open(t, b, cfg)
					var stats atomic.Int64
					handler := func(context.Context, record.Record) error {
						if stats.Add(1) == 3 && which == "OnRevoked" && once {
							return c.Subscribe(t.Context())
						}
						return nil
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					aside(func() { _ = c.Run(ctx, handler, consumer.RunConfig{}) })
					require.False(t, once)
					require.NoError(t, ctx.Err())
					require.NoError(t, c.Subscribe(t.Context(), "t"))
					require.NoError(t, c.Run(ctx, handler, consumer.RunConfig{}), "goes on until its context ends")
					require.Equal(t, int64(3), stats.Load())
					require.NoError(t, c.Close())
					require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"))
					require.Positive(t, revoked, "by Close at the latest")
				})
			})
		}
	}
}

func TestCommitsGoOnWhenACallbackOfOneEndsItsGoroutine(t *testing.T) {
	for _, how := range []string{"before Close", "by Close"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 9)
				c := open(t, b, config(consumer.CommitProcessed))
				read(t, c, 5)
				var order []int
				for i := range 4 { // some are sent together
					c.CommitAsync(record.Offsets{tp(0): int64(i)}, func(_ record.Offsets, err error) {
						require.NoError(t, err)
						order = append(order, i)
						runtime.Goexit()
					})
				}
				if how == "before Close" {
					time.Sleep(time.Second)
					synctest.Wait()
					require.Equal(t, []int{0, 1, 2, 3}, order)
					time.Sleep(time.Minute)
					require.Equal(t, int64(4), committed(t, b, "g")[tp(0)], "the periodic commit goes on")
				}
				require.NoError(t, c.Close())
				require.Equal(t, []int{0, 1, 2, 3}, order)
			})
		})
	}
}

// done runs in the order of the calls, also where Close comes between them.
func TestCallbacksOfCommitsKeepTheirOrderWhileTheConsumerCloses(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 9)
		slow := &secondLong{Backend: b}
		c := open(t, slow, config(consumer.CommitManual))
		read(t, c, 9)
		var got []string
		note := func(name string) func(record.Offsets, error) {
			return func(_ record.Offsets, err error) {
				got = append(got, fmt.Sprint(name, errors.Is(err, consumer.ErrClosed)))
			}
		}
		c.CommitAsync(record.Offsets{tp(0): 1}, note("first "))
		synctest.Wait()
		c.CommitAsync(record.Offsets{tp(0): 2}, note("second "))
		go func() { _ = c.Close() }()
		synctest.Wait()
		c.CommitAsync(record.Offsets{tp(0): 3}, func(o record.Offsets, err error) {
			note("third ")(o, err)
			c.CommitAsync(o, note("fifth "))
			require.NoError(t, c.Close(), "does not wait for itself")
		})
		c.CommitAsync(record.Offsets{tp(0): 4}, note("fourth "))
		require.Empty(t, got)
		require.NoError(t, c.Close())
		require.Equal(t, []string{"first false", "second false", "third true", "fourth true", "fifth true"}, got)
		require.Equal(t, int64(2), committed(t, b, "g")[tp(0)])
		c.CommitAsync(record.Offsets{tp(0): 5}, note("late "))
		require.Equal(t, "late true", got[len(got)-1])
	})
}

// Commits that were queued and not sent before the context of Shutdown ended fail in order, too.
// Their callbacks may call the consumer.
func TestCommitsThatShutdownDoesNotSendAreRefusedInOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 9)
		slow := &secondLong{Backend: b}
		c := open(t, slow, config(consumer.CommitManual))
		read(t, c, 9)
		var order []int
		for i := range 4 {
			c.CommitAsync(record.Offsets{tp(0): int64(i)}, func(_ record.Offsets, err error) {
				require.Error(t, err)
				require.NoError(t, c.Close(), "does not wait for itself")
				order = append(order, i)
				runtime.Goexit()
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		_ = c.Shutdown(ctx)
		require.Less(t, time.Since(began), 10*time.Second)
		require.Equal(t, []int{0, 1, 2, 3}, order)
	})
}

// secondLong is a backend whose commits take a second.
type secondLong struct{ consumer.Backend }

func (s *secondLong) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	select {
	case <-time.After(time.Second):
		return s.Backend.CommitOffsets(ctx, req)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestConsumerIsClosedAlthoughOnRevokedDoesNotReturn(t *testing.T) {
	for name, leave := range exits {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				cfg := config(consumer.CommitProcessed)
				cfg.OnRevoked = func(context.Context, []record.TopicPartition) { leave() }
				c := open(t, b, cfg)
				fill(t, b, 0, 1)
				read(t, c, 1)
				aside(func() { _ = c.Close() })
				began := time.Now()
				require.NoError(t, c.Close(), "closed by then")
				require.Zero(t, time.Since(began))
				info, err := b.Group(t.Context(), "g")
				require.NoError(t, err)
				require.Empty(t, info.Members)
			})
		})
	}
}

// exitingAssignor ends the goroutine that calls it.
type exitingAssignor struct{ assignor.Assignor }

func (exitingAssignor) Assign([]assignor.Member, map[string]int32) (map[string][]record.TopicPartition, error) {
	runtime.Goexit()
	return nil, nil
}

func TestPollTellsThatAnAssignorEndedItsGoroutine(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		cfg := config(consumer.CommitProcessed)
		cfg.Assignors = []assignor.Assignor{exitingAssignor{assignor.Range()}}
		c := open(t, b, cfg)
		_, err := c.Poll(hour(t))
		require.ErrorContains(t, err, "Goexit")
		require.NoError(t, c.Close())
		require.False(t, slices.Contains(c.Assignment(), tp(0)))
	})
}
