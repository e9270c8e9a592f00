package producer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

func TestTransactionAppearsAsAWhole(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		p := newTxnProducer(t, w, "x")
		var want []string
		for i := range 3 {
			tx, err := p.Begin(t.Context())
			require.NoError(t, err)
			for part := range int32(3) {
				v := fmt.Sprintf("%d-%d", i, part)
				require.NoError(t, tx.Send(t.Context(), to(part, v)))
				want = append(want, v)
			}
			require.NoError(t, tx.Send(t.Context(), record.String("b", "", "b")))
			require.NoError(t, p.Flush(t.Context()))
			synctest.Wait()
			require.Len(t, w.written(t, "a"), 3*(i+1), "it is all written")
			require.Len(t, w.committed(t, "a"), 3*i, "and nobody sees it before it is committed")
			require.NoError(t, tx.Commit(t.Context()))
			require.Equal(t, want, w.committed(t, "a"))
			require.Len(t, w.committed(t, "b"), i+1)
		}
		require.EqualValues(t, 3, p.Stats().Commits)
	})
}

func TestAbortedTransactionIsNeverSeenAndTheProducerGoesOn(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		p := newTxnProducer(t, w, "x")
		for i := range 3 {
			tx, err := p.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Send(t.Context(), to(0, "no"), to(1, "no")))
			if i > 0 { // otherwise it may be dropped before it is written
				require.NoError(t, p.Flush(t.Context()))
			}
			require.NoError(t, tx.Abort(t.Context()))
			require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
				return tx.Send(t.Context(), to(0, "yes"), to(2, "yes"))
			}))
		}
		require.Equal(t, []string{"yes", "yes", "yes", "yes", "yes", "yes"}, w.committed(t, "a"))
		require.Contains(t, w.written(t, "a"), "no")
		require.EqualValues(t, 3, p.Stats().Aborts)
	})
}

func TestEachTransactionOfVersion2HasItsOwnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTxnWorld(t, 2)
		p := newTxnProducer(t, w, "x")
		for i := range int16(3) {
			tx, err := p.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Send(t.Context(), to(0, "v")))
			require.NoError(t, p.Flush(t.Context()))
			d, err := w.txns.Describe(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, i, d.Producer.Epoch)
			require.Equal(t, []record.TopicPartition{{Topic: "a", Partition: 0}}, d.Partitions)
			require.NoError(t, tx.Commit(t.Context()))
		}
		require.NotContains(t, w.asked(), "add", "the first write adds its partition")
	})
}

func TestOlderVersionAddsPartitionsBeforeItWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTxnWorld(t, transaction.LevelZero)
		p := newTxnProducer(t, w, "x")
		require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
			return tx.Send(t.Context(), to(0, "v"))
		}))
		require.Equal(t, []string{"init", "add", "commit"}, w.asked())
	})
}

// The feature transaction.version of a cluster is changed while a producer gets its identity, and
// again later.
func TestTransactionsHaveTheVersionThatCameWithTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTxnWorld(t, 2)
		w.version = 0
		w.fail(func(op string) error {
			if op == "init" && w.version == 0 {
				w.version = 2
				return transaction.ErrNotCoordinator
			}
			return nil
		}, nil)
		p := newTxnProducer(t, w, "x")
		for range 2 {
			require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error { return tx.Send(t.Context(), to(0, "v")) }))
			w.version = 0
		}
		require.Equal(t, []string{"init", "init", "commit", "commit"}, w.asked())
	})
}

func TestCallsInTheWrongStateChangeNothing(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		plain, err := producer.New(w.backend(t), producer.Config{})
		require.NoError(t, err)
		defer plain.Close()
		_, err = plain.Begin(ctx)
		require.ErrorIs(t, err, producer.ErrNotTransactional)
		require.ErrorIs(t, plain.Transact(ctx, func(*producer.Txn) error { panic("called") }), producer.ErrNotTransactional)
		require.ErrorIs(t, plain.InitTransactions(ctx), producer.ErrNotTransactional)

		p := newTxnProducer(t, w, "x")
		outside := func() {
			acks, err := p.Send(ctx, to(0, "outside"))
			require.ErrorIs(t, err, producer.ErrNoTransaction)
			require.ErrorIs(t, acks[0].Err, producer.ErrNoTransaction)
			calls := 0
			done := func(_ record.Record, err error) {
				require.ErrorIs(t, err, producer.ErrNoTransaction)
				calls++
			}
			p.SendAsync(ctx, to(0, "outside"), done)
			p.SendAllAsync(ctx, []record.Record{to(0, "outside"), to(1, "outside")}, done)
			require.Equal(t, 3, calls)
		}
		outside()
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		outside()
		_, err = p.Begin(ctx)
		require.ErrorIs(t, err, producer.ErrTxnOpen)
		require.NoError(t, tx.Send(ctx, to(0, "v")))
		require.NoError(t, tx.Commit(ctx))
		require.ErrorIs(t, tx.Commit(ctx), producer.ErrTxnDone)
		require.ErrorIs(t, tx.Abort(ctx), producer.ErrTxnDone)
		require.ErrorIs(t, tx.Send(ctx, to(0, "late")), producer.ErrTxnDone)
		require.ErrorIs(t, tx.CommitOffsets(ctx, group.Metadata{Group: "g", Generation: -1}, record.Offsets{{Topic: "a"}: 1}), producer.ErrTxnDone)

		next, err := p.Begin(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, tx.Abort(ctx), producer.ErrTxnDone, "the one before is no handle for the next")
		require.NoError(t, next.Send(ctx, to(0, "w")))
		require.NoError(t, next.Commit(ctx))
		require.Equal(t, []string{"v", "w"}, w.committed(t, "a"))

		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = p.Begin(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, p.Transact(ctx, func(*producer.Txn) error { return nil }), "nothing was begun")
	})
}

func TestEmptyTransactionsAskNobody(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		p := newTxnProducer(t, w, "x")
		require.NoError(t, p.InitTransactions(t.Context()))
		require.Equal(t, []string{"init"}, w.asked())
		for range 3 {
			tx, err := p.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Send(t.Context()))
			require.NoError(t, tx.CommitOffsets(t.Context(), group.Metadata{Group: "g", Generation: -1}, nil))
			require.NoError(t, tx.Commit(t.Context()))
			tx, err = p.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, tx.Abort(t.Context()))
		}
		require.Empty(t, w.asked())
	})
}

func TestLaterProducerOfTheIDFencesTheEarlierOne(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		old := newTxnProducer(t, w, "x")
		tx, err := old.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "old"), to(1, "old")))
		require.NoError(t, old.Flush(ctx))

		successor := newTxnProducer(t, w, "x")
		require.NoError(t, successor.InitTransactions(ctx))
		require.Empty(t, w.committed(t, "a"), "what was open is aborted, and holds up nobody")
		require.NoError(t, successor.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(0, "new")) }))

		err = tx.Commit(ctx)
		require.ErrorIs(t, err, producer.ErrFenced)
		require.ErrorIs(t, err, producer.ErrFatal)
		require.NotErrorIs(t, err, producer.ErrAbortable)
		require.NotErrorIs(t, err, producer.ErrOutcomeUnknown, "it was refused at the first attempt")
		_, err = old.Begin(ctx)
		require.ErrorIs(t, err, producer.ErrFenced)
		require.ErrorIs(t, old.Transact(ctx, func(*producer.Txn) error { return nil }), producer.ErrFatal)
		require.NoError(t, old.Close())
		require.Equal(t, []string{"new"}, w.committed(t, "a"))
		require.NoError(t, successor.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(1, "newer")) }))
		require.Equal(t, []string{"new", "newer"}, w.committed(t, "a"))
	})
}

func TestFencedProducerIsToldByTransactHoweverItNotices(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		old := newTxnProducer(t, w, "x")
		require.NoError(t, old.InitTransactions(ctx))
		require.NoError(t, newTxnProducer(t, w, "x").InitTransactions(ctx))
		err := old.Transact(ctx, func(tx *producer.Txn) error {
			if err := tx.Send(ctx, to(0, "zombie")); err != nil {
				return err
			}
			require.NoError(t, old.Flush(ctx))
			return tx.Send(ctx, to(1, "zombie"))
		})
		require.ErrorIs(t, err, producer.ErrFatal)
		require.ErrorIs(t, err, producer.ErrFenced)
		require.NotErrorIs(t, err, producer.ErrAbortable)
		require.Empty(t, w.committed(t, "a"))
	})
}

func TestFailedSendMakesCommitFailAndAbortHeals(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		for name, send := range map[string]struct {
			r    record.Record
			want error
		}{
			"not accepted": {record.Record{Topic: "a", Value: make([]byte, 2<<20)}, producer.ErrMessageTooLarge},
			"unknown":      {record.String("c", "", "v"), producer.ErrUnknownTopic},
		} {
			tx, err := p.Begin(ctx)
			require.NoError(t, err)
			require.NoError(t, tx.Send(ctx, to(0, "before")))
			check := func(err error) {
				require.ErrorIs(t, err, send.want, name)
				require.ErrorIs(t, err, producer.ErrAbortable, name)
				require.NotErrorIs(t, err, producer.ErrFatal, name)
				var te *producer.TxnError
				require.ErrorAs(t, err, &te, name)
				require.Equal(t, "x", te.ID)
			}
			check(tx.Send(ctx, send.r))
			check(tx.Send(ctx, to(1, "after")))
			check(tx.Commit(ctx))
			check(tx.Commit(ctx))
			require.NoError(t, tx.Abort(ctx))
			require.Empty(t, w.committed(t, "a"))
		}
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(0, "v"), to(1, "v")) }))
		require.Equal(t, []string{"v", "v"}, w.committed(t, "a"))
	})
}

func TestRecordThatCannotBeWrittenMakesCommitFail(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		require.NoError(t, w.AlterTopic(ctx, "b", map[string]string{"max.message.bytes": "200"}))
		p := newTxnProducer(t, w, "x")
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "before"), record.String("b", "", strings.Repeat("x", 500)), to(1, "behind")), "it is accepted")
		err = tx.Commit(ctx)
		require.ErrorIs(t, err, producer.ErrMessageTooLarge)
		require.ErrorIs(t, err, producer.ErrAbortable)
		require.NoError(t, tx.Abort(ctx))
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, record.String("b", "", "small")) }))
		require.Empty(t, w.committed(t, "a"))
		require.Equal(t, []string{"small"}, w.committed(t, "b"))
	})
}

func TestCommitIsAskedForUntilTheOutcomeIsKnown(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		for i, fault := range []func(err error){
			func(err error) { w.fail(once("commit", err), nil) }, // the request is lost
			func(err error) { w.fail(nil, once("commit", err)) }, // the reply is lost
		} {
			fault(transaction.ErrNotCoordinator)
			require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(int32(i), fmt.Sprint(i))) }))
			fault(transaction.ErrCoordinatorNotAvailable)
			require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(int32(i), fmt.Sprint(i, "again"))) }))
		}
		require.Equal(t, []string{"0", "0again", "1", "1again"}, w.committed(t, "a"))
		require.EqualValues(t, 4, p.Stats().Commits)
	})
}

// once returns a hook that fails the next request of kind op.
func once(op string, err error) func(string) error {
	var mu sync.Mutex
	return func(o string) error {
		mu.Lock()
		defer mu.Unlock()
		if o != op {
			return nil
		}
		e := err
		err = nil
		return e
	}
}

func TestOutcomeThatIsNotKnownWhenTheContextEndsIsToldLater(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		reachable := make(chan struct{})
		w.fail(nil, func(op string) error {
			select {
			case <-reachable:
				return nil
			default:
				if op == "commit" || op == "abort" {
					return transaction.ErrNotCoordinator
				}
				return nil
			}
		})
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "v")))
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = tx.Commit(short)
		require.ErrorIs(t, err, producer.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, producer.ErrAbortable)
		require.ErrorIs(t, tx.Send(ctx, to(0, "late")), producer.ErrTxnDone)
		require.ErrorIs(t, tx.Abort(ctx), producer.ErrOutcomeUnknown, "it is being committed")
		_, err = p.Begin(short)
		require.ErrorIs(t, err, context.DeadlineExceeded, "and the next one waits for that")
		close(reachable)
		require.NoError(t, tx.Commit(ctx))
		require.NoError(t, tx.Commit(ctx), "it stays known")
		next, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, next.Abort(ctx))
		require.Equal(t, []string{"v"}, w.committed(t, "a"))
	})
}

func TestCommitThatStillWaitsForWritesLeavesTheTransactionAsItWas(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x", func(c *producer.Config) { c.Linger = time.Hour; c.DeliveryTimeout = 2 * time.Hour })
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "v")))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		require.Equal(t, context.Canceled, tx.Commit(ended))
		require.NoError(t, tx.Send(ctx, to(0, "w")))
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, []string{"v", "w"}, w.committed(t, "a"))
	})
}

func TestTransactionThatTakesTooLongIsAborted(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x", func(c *producer.Config) { c.TransactionTimeout = time.Second })
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "slow")))
		require.NoError(t, p.Flush(ctx))
		time.Sleep(5 * time.Second)
		err = tx.Commit(ctx)
		if w.version < 2 { // the timeout fences the producer
			require.ErrorIs(t, err, producer.ErrFenced)
			require.ErrorIs(t, err, producer.ErrFatal)
			require.Empty(t, w.committed(t, "a"))
			return
		}
		require.ErrorIs(t, err, producer.ErrAbortable)
		require.NoError(t, tx.Abort(ctx))
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(0, "quick")) }))
		require.Equal(t, []string{"quick"}, w.committed(t, "a"))
	})
}

func TestLongerTimeoutThanTheClusterAllowsIsAnError(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		p := newTxnProducer(t, w, "x", func(c *producer.Config) { c.TransactionTimeout = time.Hour })
		_, err := p.Begin(t.Context())
		require.ErrorIs(t, err, transaction.ErrInvalidTimeout)
	})
}

func TestCloseAbortsTheOpenTransaction(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "v"), to(1, "v")))
		require.NoError(t, p.Flush(ctx))
		require.NoError(t, p.Close())
		require.ErrorIs(t, tx.Commit(ctx), producer.ErrTxnDone)
		_, err = p.Begin(ctx)
		require.ErrorIs(t, err, producer.ErrClosed)
		require.Empty(t, w.committed(t, "a"))
		d, err := w.txns.Describe(ctx, "x")
		require.NoError(t, err)
		require.Equal(t, "CompleteAbort", d.State.String(), "nobody waits for its timeout")
	})
}

func TestShutdownThatCannotAbortSaysSo(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(0, "v")))
		w.fail(func(op string) error { return transaction.ErrCoordinatorNotAvailable }, nil)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(short), producer.ErrOutcomeUnknown)
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.committed(t, "a"), "its time is over")
	})
}

func TestTransactAbortsWhenItsFunctionFails(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		send := func(tx *producer.Txn) {
			require.NoError(t, tx.Send(ctx, to(0, "no"), to(1, "no")))
			require.NoError(t, p.Flush(ctx))
		}
		mine := errors.New("mine")
		require.Equal(t, mine, p.Transact(ctx, func(tx *producer.Txn) error {
			send(tx)
			return mine
		}))
		require.PanicsWithValue(t, "mine", func() {
			_ = p.Transact(ctx, func(tx *producer.Txn) error {
				send(tx)
				panic("mine")
			})
		})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = p.Transact(ctx, func(tx *producer.Txn) error {
				send(tx)
				runtime.Goexit()
				return nil
			})
		}()
		<-gone
		ended, cancel := context.WithCancel(ctx)
		require.ErrorIs(t, p.Transact(ended, func(tx *producer.Txn) error {
			send(tx)
			cancel()
			return nil
		}), context.Canceled)
		require.Empty(t, w.committed(t, "a"))
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(0, "yes")) }))
		require.Equal(t, []string{"yes"}, w.committed(t, "a"))
		require.EqualValues(t, 4, p.Stats().Aborts)
	})
}

func TestAbortReleasesSendsThatWait(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x", func(c *producer.Config) {
			c.AllowUnknownTopics, c.MaxBlock = true, time.Hour
		})
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		sent := make(chan error, 1)
		go func() { sent <- tx.Send(ctx, record.String("later", "", "v")) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, tx.Abort(ctx))
		require.ErrorIs(t, <-sent, producer.ErrAbortable)
		require.Less(t, time.Since(began), time.Second)
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(0, "v")) }))
	})
}

// Commit waits for a Send that has begun but has not handed over its record.
func TestCommitCoversASendThatHasBegun(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		goOn := make(chan struct{})
		p := newTxnProducer(t, w, "x", func(c *producer.Config) {
			c.Partitioner = topic.PartitionerFunc(func(record.Record, int) int { <-goOn; return 0 })
		})
		tx, err := p.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, tx.Send(ctx, to(1, "first")))
		sent, committed := make(chan error, 1), make(chan error, 1)
		go func() { sent <- tx.Send(ctx, record.String("a", "", "held up")) }()
		synctest.Wait()
		go func() { committed <- tx.Commit(ctx) }()
		synctest.Wait()
		require.Empty(t, committed)
		close(goOn)
		require.NoError(t, <-sent)
		require.NoError(t, <-committed)
		require.Equal(t, []string{"first", "held up"}, w.committed(t, "a"))
	})
}

func TestCommitCoversSendsThatHaveBegun(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		var want []string
		for round := range 20 {
			tx, err := p.Begin(ctx)
			require.NoError(t, err)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := range 10 {
						v := fmt.Sprintf("%d-%d-%d", round, g, i)
						err := tx.Send(ctx, to(int32(g%3), v))
						if errors.Is(err, producer.ErrTxnDone) {
							return
						}
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						want = append(want, v)
						mu.Unlock()
					}
				})
			}
			require.NoError(t, tx.Commit(ctx))
			wg.Wait()
		}
		slices.Sort(want)
		if got := w.committed(t, "a"); len(want) == 0 {
			require.Empty(t, got)
		} else {
			require.Equal(t, want, got)
		}
	})
}

func TestOneOfManyCallsEndsTheTransaction(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		committed := 0
		for round := range 20 {
			tx, err := p.Begin(ctx)
			require.NoError(t, err)
			require.NoError(t, tx.Send(ctx, to(0, fmt.Sprintf("%02d", round))))
			var wg sync.WaitGroup
			errs := make([]error, 6)
			for i := range errs {
				wg.Go(func() {
					if i%2 == 0 {
						errs[i] = tx.Commit(ctx)
					} else {
						errs[i] = tx.Abort(ctx)
					}
				})
			}
			wg.Wait()
			commits, aborts := 0, 0
			for i, err := range errs {
				switch {
				case err != nil:
					if !errors.Is(err, producer.ErrTxnDone) && !errors.Is(err, producer.ErrOutcomeUnknown) {
						t.Error(err)
					}
				case i%2 == 0:
					commits++
				default:
					aborts++
				}
			}
			require.True(t, commits > 0 != (aborts > 0), "%v", errs)
			if commits > 0 {
				committed++
			}
		}
		require.Len(t, w.committed(t, "a"), committed)
	})
}

func TestOffsetsOfATransactionAreTheGroupsWhenItIsCommitted(t *testing.T) {
	inTxnWorld(t, func(t *testing.T, w *txnWorld) {
		ctx := t.Context()
		p := newTxnProducer(t, w, "x")
		tp := record.TopicPartition{Topic: "a", Partition: 1}
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.Send(ctx, to(1, "v"), to(1, "v"), to(1, "v")) }))
		outside := group.Metadata{Group: "g", Generation: -1}
		has := func(want int64) {
			t.Helper()
			synctest.Wait()
			got, unstable, err := w.FetchStableOffsets(ctx, "g", []record.TopicPartition{tp})
			require.NoError(t, err)
			require.Empty(t, unstable)
			require.Equal(t, want, got[tp].Offset)
		}
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error {
			if err := tx.CommitOffsets(ctx, outside, record.Offsets{tp: 1}); err != nil {
				return err
			}
			return tx.CommitOffsets(ctx, outside, record.Offsets{tp: 2})
		}))
		has(2)
		require.Error(t, p.Transact(ctx, func(tx *producer.Txn) error {
			require.NoError(t, tx.CommitOffsets(ctx, outside, record.Offsets{tp: 3}))
			return errors.New("no")
		}))
		has(2)
		w.fail(nil, once("offsets", group.ErrNotCoordinator))
		require.NoError(t, p.Transact(ctx, func(tx *producer.Txn) error { return tx.CommitOffsets(ctx, outside, record.Offsets{tp: 3}) }))
		has(3)
		err := p.Transact(ctx, func(tx *producer.Txn) error {
			return tx.CommitOffsets(ctx, group.Metadata{Group: "g", MemberID: "gone", Generation: 7}, record.Offsets{tp: 1})
		})
		require.ErrorIs(t, err, producer.ErrAbortable)
		require.ErrorIs(t, err, group.ErrUnknownMember)
		has(3)
	})
}

func TestTransactionalIDNeedsWhatItIsMadeOf(t *testing.T) {
	w := openTxnWorld(t, 2)
	for name, cfg := range map[string]producer.Config{
		"acks":           {TransactionalID: "x", Acks: record.AcksLeader},
		"no idempotence": {TransactionalID: "x", NoIdempotence: true},
		"no retries":     {TransactionalID: "x", Retries: producer.NoRetries},
		"timeout":        {TransactionalID: "x", TransactionTimeout: time.Microsecond},
		"no id":          {TransactionTimeout: time.Minute},
		"long":           {TransactionalID: strings.Repeat("x", 1<<15)},
		"property":       {Properties: map[string]string{"transactional.id": ""}},
		"two ids":        {TransactionalID: "x", Properties: map[string]string{"transactional.id": "y"}},
	} {
		_, err := producer.New(w.backend(t), cfg)
		var bad *producer.ConfigError
		require.ErrorAs(t, err, &bad, name)
	}
	_, err := producer.New(struct{ producer.Backend }{w}, producer.Config{TransactionalID: "x"})
	var bad *producer.ConfigError
	require.ErrorAs(t, err, &bad, "a backend without transactions")
	p, err := producer.New(w.backend(t), producer.Config{Properties: map[string]string{"transactional.id": "x", "transaction.timeout.ms": "1000"}})
	require.NoError(t, err)
	require.NoError(t, p.InitTransactions(t.Context()))
	d, err := w.txns.Describe(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, time.Second, d.Timeout)
	require.NoError(t, p.Close())
}
