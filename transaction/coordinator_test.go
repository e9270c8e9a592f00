package transaction

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

var (
	a0, a1, b0 = tp{Topic: "a"}, tp{Topic: "a", Partition: 1}, tp{Topic: "b"}

	errLost = errors.New("lost")
)

// The writes of a producer in a transaction, to any partitions, appear together or not at all.
func TestTransactionsAppearTogetherOrNotAtAll(t *testing.T) {
	for _, version := range []int16{0, 2} {
		for _, brokers := range []int{1, 3} {
			t.Run(fmt.Sprintf("version %d, %d brokers", version, brokers), func(t *testing.T) {
				in(t, brokers, Config{Version: level(version)}, func(w *world) {
					p := w.writer("x", version)
					require.Equal(w, "Empty", w.state("x").String())
					for i := range 6 {
						for _, tp := range []tp{a0, b0, a1} {
							require.NoError(w, p.write(tp, fmt.Sprint(i)))
						}
						require.Equal(w, "Ongoing", w.state("x").String())
						require.False(w, w.stable(a0))
						require.NoError(w, p.end(i%2 == 0))
						w.settled()
						require.Equal(w, []string{"CompleteCommit", "CompleteAbort"}[i%2], w.state("x").String())
					}
					for _, tp := range []tp{a0, b0, a1} {
						require.Equal(w, []string{"0", "2", "4"}, w.committed(tp))
						require.True(w, w.stable(tp))
					}
					require.Empty(w, w.committed(tp{Topic: "b", Partition: 1}))
					require.Equal(w, int64(18), w.c.Stats().MarkersSent, "one for each")
				})
			})
		}
	}
}

// Only the leader of an id's partition of __transaction_state coordinates the id. Id "x" is in
// partition 20, "tx" in 12.
func TestBrokerAnswersForTheIDsThatItCoordinates(t *testing.T) {
	in(t, 3, Config{}, func(w *world) {
		all, ctx := w.c, w.Context()
		requests := func(c *Coordinator, id string, p Producer) map[string]error {
			errs := map[string]error{}
			_, errs["init"] = c.InitProducerID(ctx, id, time.Minute, NoProducer)
			errs["add"] = c.AddPartitions(ctx, AddRequest{ID: id, Producer: p, Partitions: []tp{a0}})
			_, errs["verify"] = c.VerifyPartitions(ctx, AddRequest{ID: id, Producer: p, Partitions: []tp{a0}})
			_, errs["end"] = c.End(ctx, EndRequest{ID: id, Producer: p})
			_, errs["describe"] = c.Describe(ctx, id)
			return errs
		}
		for name, err := range requests(all.On(1), "x", NoProducer) {
			require.ErrorIs(w, err, ErrNotCoordinator, "%s before there is a topic", name)
		}
		_, exists := w.brokers.TopicID("__transaction_state")
		require.False(w, exists, "only FindCoordinator makes it")
		_, err := all.Describe(ctx, "x")
		require.ErrorIs(w, err, ErrNotFound)
		require.ErrorIs(w, all.AddPartitions(ctx, AddRequest{ID: "x"}), ErrInvalidProducerMapping)
		_, exists = w.brokers.TopicID("__transaction_state")
		require.False(w, exists, "who only asks does not")

		found := map[int32]bool{}
		for i := range 9 {
			id := fmt.Sprint("x", i)
			at, err := all.On(2).FindCoordinator(ctx, id)
			require.NoError(w, err)
			found[at] = true
			p := w.init(id)
			for b := range int32(3) {
				for name, err := range requests(all.On(b+1), id, p) {
					if b+1 == at {
						require.NotErrorIs(w, err, ErrNotCoordinator, name)
					} else {
						require.ErrorIs(w, err, ErrNotCoordinator, name)
					}
				}
				listed, err := all.On(b + 1).List(ctx)
				require.NoError(w, err)
				n := 0
				for _, d := range listed {
					if d.ID == id {
						n++
					}
				}
				require.Equal(w, map[bool]int{true: 1, false: 0}[b+1 == at], n)
			}
		}
		require.Len(w, found, 3)
		listed, err := all.List(ctx)
		require.NoError(w, err)
		require.Len(w, listed, 9)
		require.Equal(w, "x0", listed[0].ID)

		md, err := w.brokers.Metadata(ctx, "__transaction_state")
		require.NoError(w, err)
		require.Len(w, md.Topics["__transaction_state"].Partitions, 50)
		require.Len(w, md.Topics["__transaction_state"].Partitions[0].Replicas, 3)
		settings, err := w.brokers.View(1).TopicSettings("__transaction_state")
		require.NoError(w, err)
		require.Equal(w, map[string]string{"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600",
			"unclean.leader.election.enable": "false", "flush.messages": "1", "min.insync.replicas": "2"}, settings.Explicit())
	})
}

func TestRequestsThatCannotBeAreRefused(t *testing.T) {
	in(t, 1, Config{MaxTimeout: time.Minute}, func(w *world) {
		ctx := w.Context()
		for _, id := range []string{"", string(make([]byte, 1<<15))} {
			_, err := w.c.InitProducerID(ctx, id, time.Second, NoProducer)
			require.ErrorIs(w, err, ErrInvalidID)
			_, err = w.c.FindCoordinator(ctx, id)
			require.ErrorIs(w, err, ErrInvalidID)
			_, err = w.c.Describe(ctx, id)
			require.ErrorIs(w, err, ErrInvalidID)
			require.ErrorIs(w, w.c.AddPartitions(ctx, AddRequest{ID: id}), ErrInvalidID)
		}
		for _, d := range []time.Duration{0, -1, time.Minute + 1} {
			_, err := w.c.InitProducerID(ctx, "x", d, NoProducer)
			require.ErrorIs(w, err, ErrInvalidTimeout)
		}
		require.ErrorIs(w, w.c.AddOffsets(ctx, AddRequest{ID: "x"}, "g"), errors.ErrUnsupported)
		p := w.writer("x", 2)
		require.ErrorIs(w, p.end(true), ErrInvalidState, "nothing to commit")
		require.NoError(w, p.add(a0))
		errs, err := w.c.VerifyPartitions(ctx, AddRequest{ID: "x", Producer: p.p, Partitions: []tp{a0, b0}})
		require.NoError(w, err)
		require.NoError(w, errs[0])
		require.ErrorIs(w, errs[1], ErrAbortable)
	})
	for _, cfg := range []Config{{Version: 3}, {Version: -2}, {MaxTimeout: -1}, {MaxTimeout: 25 * 24 * time.Hour}, {Expiration: -2}, {ExpiryInterval: -1},
		{Topic: TopicConfig{Partitions: -1}}, {Topic: TopicConfig{Replicas: -1}}, {Topic: TopicConfig{MinInSync: -1}}, {Topic: TopicConfig{MaxBatchBytes: -1}},
		{Topic: TopicConfig{Replicas: 1, MinInSync: 2}}} {
		var wrong *topic.ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong, "%+v", cfg)
	}
	require.NoError(t, Config{Version: LevelZero, Expiration: Unlimited, MaxTimeout: 24 * 24 * time.Hour}.Validate())
}

func TestOffsetsOfAGroupArePartOfATransaction(t *testing.T) {
	in(t, 1, Config{OffsetsPartition: func(_ context.Context, group string) (tp, error) {
		if group == "" {
			return tp{}, errLost
		}
		return b0, nil
	}}, func(w *world) {
		p := w.writer("x", 2)
		require.ErrorIs(w, w.c.AddOffsets(w.Context(), AddRequest{ID: "x", Producer: p.p}, ""), errLost)
		require.NoError(w, w.c.AddOffsets(w.Context(), AddRequest{ID: "x", Producer: p.p}, "g"))
		d, err := w.c.Describe(w.Context(), "x")
		require.NoError(w, err)
		require.Equal(w, []tp{b0}, d.Partitions)
		require.Equal(w, time.Minute, d.Timeout)
		require.Equal(w, time.Now(), d.Started)
	})
}

// A producer that is silent for longer than its timeout no longer delays readers, and its later
// requests are rejected.
func TestTransactionThatTakesTooLongIsAborted(t *testing.T) {
	for _, version := range []int16{0, 2} {
		in(t, 1, Config{Version: level(version)}, func(w *world) {
			p := w.writer("x", version)
			require.NoError(w, p.write(a0, "1"))
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			require.False(w, w.stable(a0))
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.True(w, w.stable(a0))
			require.Empty(w, w.committed(a0))
			require.Equal(w, "CompleteAbort", w.state("x").String())
			require.Error(w, p.end(true))
			require.ErrorIs(w, p.append(a0, "late"), partition.ErrInvalidProducerEpoch)
		})
	}
}

func TestIDThatNobodyUsesIsForgotten(t *testing.T) {
	in(t, 1, Config{}, func(w *world) {
		p := w.writer("x", 2)
		time.Sleep(7*24*time.Hour - time.Second)
		require.Equal(w, "Empty", w.state("x").String())
		time.Sleep(time.Hour + time.Second)
		_, err := w.c.Describe(w.Context(), "x")
		require.ErrorIs(w, err, ErrNotFound)
		require.ErrorIs(w, p.add(a0), ErrInvalidProducerMapping)
		require.NoError(w, w.c.Close())
		w.start()
		require.ErrorIs(w, p.add(a0), ErrInvalidProducerMapping, "nor after a restart")
		require.NotEqual(w, p.p.ID, w.init("x").ID)
	})
}

// After epoch 32,766 an id gets another producer id, whatever causes the change.
func TestUsedUpEpochsTakeAnotherProducerID(t *testing.T) {
	for name, next := range map[string]func(w *world, p *writer){
		"a producer begins": func(w *world, p *writer) { p.p = w.init("x") },
		"the end of a transaction": func(w *world, p *writer) {
			require.NoError(w, p.write(a0, "last"))
			require.NoError(w, p.end(true))
		},
		"a transaction takes too long": func(w *world, p *writer) {
			require.NoError(w, p.write(a0, "lost"))
			time.Sleep(time.Minute)
			w.settled()
			p.p = w.init("x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, 1, Config{}, func(w *world) {
				p := w.writer("x", 2)
				before := p.p.ID
				for p.p.Epoch < 32766 {
					p.p = w.init("x")
				}
				require.Equal(w, before, p.p.ID)
				next(w, p)
				w.settled()
				require.NotEqual(w, before, p.p.ID)
				require.LessOrEqual(w, p.p.Epoch, int16(1))
				clear(p.seqs)
				require.NoError(w, p.write(a0, "next"))
				require.NoError(w, p.end(true))
				w.settled()
				require.Contains(w, w.committed(a0), "next")
				require.NotContains(w, w.committed(a0), "lost")
			})
		})
	}
}

// A decided transaction is finished by the next coordinator of its id.
func TestDecidedTransactionIsFinishedAfterARestart(t *testing.T) {
	in(t, 1, Config{}, func(w *world) {
		w.brokers.onMarkers(func(_ replication.NetworkPath, m replication.TxnMarker) error {
			if m.Partition == b0 {
				return errLost
			}
			return nil
		})
		p := w.writer("x", 2)
		require.NoError(w, p.write(a0, "1"))
		require.NoError(w, p.write(b0, "1"))
		require.NoError(w, p.end(true))
		time.Sleep(time.Hour)
		require.Equal(w, []string{"1"}, w.committed(a0))
		require.Empty(w, w.committed(b0))
		require.ErrorIs(w, p.add(a0), ErrConcurrent)
		_, err := w.c.InitProducerID(w.Context(), "x", time.Minute, NoProducer)
		require.ErrorIs(w, err, ErrConcurrent)
		require.InDelta(w, 3650, w.c.Stats().MarkersSent, 100, "about one a second")
		require.NoError(w, w.c.Close())

		w.brokers.onMarkers(nil)
		w.start()
		require.Eventually(w, func() bool { return w.state("x") == 4 }, time.Minute, time.Millisecond)
		require.Equal(w, []string{"1"}, w.committed(b0))
		require.NoError(w, p.write(b0, "2"))
		require.NoError(w, p.end(true))
		w.settled()
		require.Equal(w, []string{"1", "2"}, w.committed(b0))
	})
}

// Markers for a deleted topic are dropped, also if a new topic has its name.
func TestMarkersOfDeletedTopicsAreGivenUp(t *testing.T) {
	for _, again := range []bool{false, true} {
		in(t, 3, Config{}, func(w *world) {
			p := w.writer("x", 2)
			require.NoError(w, p.write(a0, "1"))
			require.NoError(w, p.write(b0, "1"))
			w.brokers.onMarkers(func(_ replication.NetworkPath, m replication.TxnMarker) error {
				if m.Partition == b0 {
					return errLost
				}
				return nil
			})
			require.NoError(w, p.end(true))
			synctest.Wait()
			require.Equal(w, "PrepareCommit", w.state("x").String())
			require.NoError(w, w.brokers.DeleteTopic(w.Context(), "b"))
			if again {
				w.create("b")
				w.brokers.onMarkers(nil)
			}
			w.settled()
			require.Equal(w, "CompleteCommit", w.state("x").String())
			require.Equal(w, int64(1), w.c.Stats().MarkersGivenUp)
			require.Equal(w, []string{"1"}, w.committed(a0))
			if again {
				require.Zero(w, w.brokers.Status("b", 0).LogEndOffset)
			}
		})
	}
}

// WaitEnded of a transaction whose end was confirmed waits until all its markers are written.
func TestWhoWaitsForTheEndIsToldWhenAllMarkersAreWritten(t *testing.T) {
	in(t, 1, Config{}, func(w *world) {
		require.ErrorIs(w, w.c.WaitEnded(w.Context(), "nobody"), ErrNotFound)
		require.ErrorIs(w, w.c.WaitEnded(w.Context(), ""), ErrInvalidID)
		p := w.writer("x", 2)
		require.NoError(w, w.c.WaitEnded(w.Context(), "x"), "there is none")
		require.NoError(w, p.write(a0, "1"))
		require.NoError(w, p.write(b0, "2"))
		require.NoError(w, w.c.WaitEnded(w.Context(), "x"), "nothing is decided")

		began, held := time.Now(), 150*time.Second
		w.brokers.onMarkers(func(_ replication.NetworkPath, m replication.TxnMarker) error {
			if m.Partition == b0 && time.Since(began) < held {
				return replication.ErrClosed
			}
			return nil
		})
		require.NoError(w, p.end(true))
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, w.c.WaitEnded(ctx, "x"), context.DeadlineExceeded)
		require.Equal(w, time.Second, time.Since(began))
		require.NoError(w, w.c.WaitEnded(w.Context(), "x"))
		require.GreaterOrEqual(w, time.Since(began), held)
		require.Less(w, time.Since(began), held+2*time.Second, "as soon as it is so")
		require.Equal(w, "CompleteCommit", w.state("x").String())
	})
}
