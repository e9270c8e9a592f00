package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

var _ mirror.Source = strata.Client(nil)
var _ mirror.Target = strata.Client(nil)

// Offsets of a group without members expire after 7 days, transactional ids too. The position must
// depend on neither.
func TestMirrorContinuesAfterMoreThanAWeekWithoutContact(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.NoError(t, w.local.AlterTopic(t.Context(), "t", map[string]string{"retention.ms": "-1"}))
		fill(t, w.local, 0, 30)
		near := w.dial()
		require.NoError(t, drain(t, w.local, near))
		require.NoError(t, near.Close())
		fill(t, w.local, 30, 30)
		time.Sleep(9 * 24 * time.Hour)
		require.NoError(t, w.local.DeleteGroup(t.Context(), "strata-mirror-m"))
		far := w.dial()
		require.NoError(t, drain(t, w.local, far))
		time.Sleep(time.Second)
		same(t, w.local, far)
	})
}

func TestMirrorContinuesWhenItsTransactionalIDHasExpired(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far, err := strata.Open(strata.Config{Transactions: transaction.Config{Expiration: time.Hour}})
		require.NoError(t, err)
		defer func() { require.NoError(t, far.Close()) }()
		fill(t, w.local, 0, 30)
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		ended, stop := start(t, f)
		time.Sleep(3 * time.Hour)
		fill(t, w.local, 30, 30)
		time.Sleep(10 * time.Second)
		stop()
		require.NoError(t, <-ended)
		require.EqualValues(t, 1, f.Stats().Aborts, "the id had expired")
		same(t, w.local, far)
	})
}

// An open transaction holds the last stable offset of the topic of positions below later ones.
func TestOpenTransactionOfAnotherMirrorHidesNoPosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		ended, stop := start(t, forward(t, w.local, far, mirror.ForwardConfig{}))
		fill(t, w.local, 0, 30)
		time.Sleep(5 * time.Second)
		other, err := producer.New(far, producer.Config{TransactionalID: "other"})
		require.NoError(t, err)
		tx, err := other.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), record.String(mirror.DefaultPositionTopic, "other", "x").To(0)))
		time.Sleep(time.Second)
		fill(t, w.local, 30, 30)
		time.Sleep(5 * time.Second)
		stop()
		require.NoError(t, <-ended)

		began := time.Now()
		require.NoError(t, drain(t, w.local, far))
		require.Greater(t, time.Since(began), 40*time.Second, "until the transaction has timed out")
		require.Error(t, tx.Commit(t.Context()))
		require.NoError(t, other.Close())
		same(t, w.local, far)
	})
}

func contextFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestMirrorShowsItsLag(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		f := forward(t, w.local, far, mirror.ForwardConfig{})
		require.EqualValues(t, -1, f.Stats().Lag, "nothing is known before Run")
		ended, stop := start(t, f)
		fill(t, w.local, 0, 30)
		time.Sleep(5 * time.Second)
		st := f.Stats()
		require.Equal(t, [3]int64{30, 0, 0}, [3]int64{st.Records, st.Lag, int64(st.LagTime)})
		require.Positive(t, st.Bytes)
		require.False(t, st.Connected.IsZero())
		require.NoError(t, st.LastError)

		f.Pause()
		time.Sleep(5 * time.Second)
		fill(t, w.local, 30, 60)
		time.Sleep(30 * time.Second)
		st = f.Stats()
		require.True(t, st.Paused)
		require.LessOrEqual(t, st.Records, int64(90))
		require.InDelta(t, 60, st.Lag, 60, "at most the batch in progress was forwarded")
		require.Positive(t, st.Lag)
		require.InDelta(t, 30, st.LagTime.Seconds(), 10)

		f.Resume()
		time.Sleep(5 * time.Second)
		st = f.Stats()
		require.Equal(t, [3]int64{90, 0, 0}, [3]int64{st.Records, st.Lag, int64(st.LagTime)})
		lags, err := w.local.Lags(t.Context())
		require.NoError(t, err)
		require.Len(t, lags, 1)
		require.Equal(t, "strata-mirror-m", lags[0].Group)
		require.EqualValues(t, 0, lags[0].Lag)
		stop()
		require.NoError(t, <-ended)
		require.True(t, f.Stats().Connected.IsZero())
		same(t, w.local, far)
	})
}

// lines counts the log lines with a text.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func TestUnreachableTargetIsTriedAgainWithoutAStormOfLogLines(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far, log := w.dial(), &lines{}
		f := forward(t, w.local, far, mirror.ForwardConfig{Logger: slog.New(slog.NewTextHandler(log, nil))})
		ended, stop := start(t, f)
		fill(t, w.local, 0, 30)
		time.Sleep(5 * time.Second)
		cut := w.server.Fault(kafkatest.Fault{Times: kafkatest.Always, Close: true})
		fill(t, w.local, 30, 300)
		time.Sleep(10 * time.Minute)
		st := f.Stats()
		require.Error(t, st.LastError)
		require.True(t, st.Connected.IsZero())
		require.EqualValues(t, 300, st.Lag, "the source is looked at meanwhile")
		require.Greater(t, st.LagTime, 9*time.Minute)
		require.Positive(t, log.count("cannot forward"))
		require.Less(t, log.count("cannot forward"), 2*10*60)
		cut.Remove()
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 0, f.Stats().Lag)
		require.False(t, f.Stats().Connected.IsZero())
		stop()
		require.NoError(t, <-ended)
		same(t, w.local, far)
	})
}

func TestRunEndsInTimeWhileTheTargetIsSilent(t *testing.T) {
	for _, api := range []kafka.Key{kafka.Produce, kafka.EndTxn, kafka.InitProducerID, kafka.Metadata} {
		t.Run(fmt.Sprint(api), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				far := w.dial()
				fill(t, w.local, 0, 30)
				silent := w.server.Fault(kafkatest.Fault{APIs: []kafka.Key{api}, Times: kafkatest.Always, Hold: true})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				began := time.Now()
				require.NoError(t, forward(t, w.local, far, mirror.ForwardConfig{}).Run(ctx))
				require.Less(t, time.Since(began), 23*time.Second)
				silent.Remove()
				require.NoError(t, drain(t, w.local, far))
				time.Sleep(time.Second)
				same(t, w.local, far)
			})
		})
	}
}

func TestRunEndsInTimeWhileTheSourceIsSilent(t *testing.T) {
	for _, api := range []kafka.Key{kafka.Fetch, kafka.ListOffsets, kafka.Metadata, kafka.OffsetCommit} {
		for skip := range 4 {
			t.Run(fmt.Sprint(api, " after ", skip), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					far := w.dial()
					require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
					require.NoError(t, w.local.DeleteTopic(t.Context(), "t"))
					fill(t, far, 0, 30)
					silent := w.server.Fault(kafkatest.Fault{APIs: []kafka.Key{api}, Skip: skip, Times: kafkatest.Always, Hold: true})
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					began := time.Now()
					require.NoError(t, forward(t, far, w.local, mirror.ForwardConfig{}).Run(ctx))
					require.Less(t, time.Since(began), 33*time.Second)
					silent.Remove()
					require.NoError(t, drain(t, far, w.local))
					time.Sleep(time.Second)
					same(t, far, w.local)
				})
			})
		}
	}
}

func TestLimitOfSpeedIsKept(t *testing.T) {
	for _, cfg := range []mirror.ForwardConfig{{RecordsPerSecond: 10}, {BytesPerSecond: 100}} {
		t.Run(fmt.Sprint(cfg.RecordsPerSecond, " records ", cfg.BytesPerSecond, " bytes"), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				far := w.dial()
				fill(t, w.local, 0, 300)
				began := time.Now()
				f := forward(t, w.local, far, cfg)
				require.NoError(t, f.Drain(t.Context()))
				took := time.Since(began).Seconds()
				want := 30.0
				if cfg.BytesPerSecond > 0 {
					want = float64(f.Stats().Bytes) / float64(cfg.BytesPerSecond)
				}
				require.InDelta(t, want, took, 0.6*want)
				time.Sleep(time.Second)
				same(t, w.local, far)
			})
		})
	}
}

func TestSeveralTopicsAreForwardedUnderOtherNames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		require.NoError(t, w.local.CreateTopic(t.Context(), "u", topic.Config{Partitions: 2, Properties: map[string]string{
			"retention.ms": "123456789", "cleanup.policy": "compact,delete", "min.insync.replicas": "1",
		}}))
		fill(t, w.local, 0, 30)
		p, err := producer.New(w.local, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("u", "k", "v").To(1), record.String("u", "k", "w").To(1))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		cfg := mirror.ForwardConfig{Topics: []string{"t", "u"}, Rename: func(name string) string { return "edge." + name }}
		for range 3 {
			require.NoError(t, forward(t, w.local, far, cfg).Drain(t.Context()))
		}
		time.Sleep(time.Second)
		require.Equal(t, rows(t, w.local, "t"), rows(t, far, "edge.t"))
		require.Equal(t, rows(t, w.local, "u"), rows(t, far, "edge.u"))
		info, err := far.Topic(t.Context(), "edge.u")
		require.NoError(t, err)
		require.Len(t, info.Partitions, 2)
		explicit := info.Settings.Explicit()
		require.Equal(t, "123456789", explicit["retention.ms"])
		require.Equal(t, "compact,delete", explicit["cleanup.policy"])
		require.NotContains(t, explicit, "min.insync.replicas")
	})
}

// The mirror must move past aborted transactions at the end, or retention would pass its position.
func TestAbortedTransactionsAtTheEndAreNoGap(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		fill(t, w.local, 0, 30)
		ended, stop := start(t, forward(t, w.local, far, mirror.ForwardConfig{}))
		time.Sleep(5 * time.Second)
		p, err := producer.New(w.local, producer.Config{TransactionalID: "x"})
		require.NoError(t, err)
		failed := errors.New("no")
		require.ErrorIs(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
			if err := tx.Send(t.Context(), numbered(100, 9)...); err != nil {
				return err
			}
			time.Sleep(time.Second)
			return failed
		}), failed)
		require.NoError(t, p.Close())
		time.Sleep(5 * time.Second)
		stop()
		require.NoError(t, <-ended)
		_, err = w.local.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(0): -1, tp(1): -1, tp(2): -1})
		require.NoError(t, err)
		fill(t, w.local, 30, 3)
		require.NoError(t, drain(t, w.local, far))
		time.Sleep(time.Second)
		require.Len(t, rows(t, far, "t")[0], 11)
	})
}

func TestWarningBeforeRetentionPassesTheMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.NoError(t, w.local.AlterTopic(t.Context(), "t", map[string]string{"retention.ms": "7200000"}))
		far, log := w.dial(), &lines{}
		f := forward(t, w.local, far, mirror.ForwardConfig{Logger: slog.New(slog.NewTextHandler(log, nil))})
		_, _ = start(t, f)
		time.Sleep(5 * time.Second)
		f.Pause()
		time.Sleep(5 * time.Second)
		for range 2 { // the first batch may be in progress
			fill(t, w.local, 0, 30)
			time.Sleep(5 * time.Second)
		}
		time.Sleep(50 * time.Minute)
		require.InDelta(t, 0.42, f.Stats().RetentionUsed, 0.05)
		require.Zero(t, log.count("will delete records"))
		time.Sleep(20 * time.Minute)
		require.InDelta(t, 0.58, f.Stats().RetentionUsed, 0.05)
		require.InDelta(t, 10, log.count("will delete records"), 3, "one line a minute")
	})
}

func TestOnlyOneRunIsActive(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		f := forward(t, w.local, w.dial(), mirror.ForwardConfig{})
		ended, stop := start(t, f)
		time.Sleep(time.Second)
		require.ErrorIs(t, f.Run(t.Context()), mirror.ErrRunning)
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, f.Drain(t.Context()))
	})
}

func TestDrainWhoseContextEndsReturnsItsError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		fill(t, w.local, 0, 300)
		f := forward(t, w.local, w.dial(), mirror.ForwardConfig{RecordsPerSecond: 10})
		require.ErrorIs(t, f.Drain(contextFor(t, 3*time.Second)), context.DeadlineExceeded)
	})
}

func TestRecordThatTheTargetDoesNotAcceptEndsTheMirror(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		far := w.dial()
		require.NoError(t, far.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions, Properties: map[string]string{"max.message.bytes": "2000"}}))
		p, err := producer.New(w.local, producer.Config{})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), record.String("t", "k", "small").To(1), record.String("t", "k", strings.Repeat("x", 3000)).To(1))
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.ErrorIs(t, drain(t, w.local, far), producer.ErrMessageTooLarge)
		time.Sleep(time.Second)
		require.Len(t, rows(t, far, "t")[1], 1, "only the record before it")
	})
}
