package producer

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func TestCloseSendsWhatIsBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 2})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Second} }
		p := newProducer(t, f, Config{Linger: time.Minute})
		var acked int
		var mu sync.Mutex
		for i := range 10 {
			p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) {
				require.NoError(t, err)
				mu.Lock()
				acked++
				mu.Unlock()
			})
		}
		require.NoError(t, p.Close())
		require.Equal(t, 10, acked)
		require.NoError(t, p.Close(), "again")
		_, err := p.Send(t.Context(), value("a", 0))
		require.ErrorIs(t, err, ErrClosed)
		_, err = p.Send(t.Context(), value("new", 0))
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestShutdownFailsTheRestWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		// a hung backend
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: time.Hour} }
		p := newProducer(t, f, Config{BatchBytes: 100, MaxRequestBytes: 100})
		errs := make(chan error, 100)
		for i := range 20 {
			p.SendAsync(t.Context(), value("a", i), func(_ record.Record, err error) { errs <- err })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.Len(t, errs, 20)
		for range 20 {
			require.ErrorIs(t, <-errs, ErrClosed)
		}
		time.Sleep(2 * time.Hour) // the late answers find no waiting batch
		require.ErrorIs(t, p.Close(), context.DeadlineExceeded, "the first result")
	})
}

// The answer came before the end of Shutdown's context. Its callback still runs on the backend's
// goroutine.
func TestShutdownReturnsWhenEveryCallbackHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(request int, _ *partition.ProduceRequest, _ *record.Batch) fate {
			if request == 0 {
				return fate{delay: time.Second}
			}
			return fate{delay: time.Hour}
		}
		p := newProducer(t, f, Config{})
		var mu sync.Mutex
		var errs []error
		done := func(_ record.Record, err error) {
			time.Sleep(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
		p.SendAsync(t.Context(), value("a", 0), done)
		synctest.Wait() // it is in flight
		p.SendAsync(t.Context(), value("a", 1), done)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		require.Len(t, errs, 2)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], ErrClosed)
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"a": 1})
		f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: 10 * time.Second} }
		p := newProducer(t, f, Config{AllowUnknownTopics: true, MaxBufferedBytes: 1000})
		p.SendAsync(t.Context(), record.String("a", "", strings.Repeat("x", 900)), nil)
		var wg sync.WaitGroup
		start := time.Now()
		wait := func(r record.Record) {
			wg.Go(func() {
				_, err := p.Send(t.Context(), r)
				require.ErrorIs(t, err, ErrClosed)
				require.Equal(t, time.Second, time.Since(start))
			})
		}
		wait(record.String("a", "", strings.Repeat("x", 900))) // for memory
		wait(value("unknown", 0))                              // for a topic
		wait(value("a", 0).To(7))                              // for a partition
		time.Sleep(time.Second)
		require.NoError(t, p.Close())
		wg.Wait()
	})
}

// While Shutdown waits for the backend, memory is still full. A record sent then is refused
// without a wait for memory.
func TestARecordRefusedDuringShutdownHoldsNoMemory(t *testing.T) {
	for name, maxBlock := range map[string]time.Duration{"waiting": 0, "not waiting": NoWait} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]int{"a": 1})
				f.script = func(int, *partition.ProduceRequest, *record.Batch) fate { return fate{delay: 10 * time.Second} }
				p := newProducer(t, f, Config{MaxBufferedBytes: 1000, MaxBlock: maxBlock})
				large := record.String("a", "", strings.Repeat("x", 900))
				p.SendAsync(t.Context(), value("a", 0), nil)
				synctest.Wait() // the topic is known
				p.SendAsync(t.Context(), large, nil)
				closed := make(chan error)
				go func() { closed <- p.Close() }()
				synctest.Wait()
				for range 3 {
					_, err := p.Send(t.Context(), large)
					require.ErrorIs(t, err, ErrClosed)
					require.Zero(t, p.Stats().Blocked, "nobody waits")
				}
				require.NoError(t, <-closed)
				require.Zero(t, p.Stats().BufferedBytes)
			})
		})
	}
}

// A record without an offset must not look like the first one of its partition.
func TestARecordThatIsNotAcceptedIsGivenBackWithoutAnOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, newFake(map[string]int{"a": 1}), Config{MaxRequestBytes: 1000})
		refused := func(r record.Record, target error) (got record.Record) {
			p.SendAsync(t.Context(), r, func(r record.Record, err error) {
				require.ErrorIs(t, err, target)
				got = r
			})
			require.Equal(t, []int64{-1, -1}, []int64{got.Offset, int64(got.LeaderEpoch)})
			return got
		}
		require.Equal(t, int32(-1), refused(record.String("none", "", "x"), ErrUnknownTopic).Partition)
		require.Equal(t, int32(-1), refused(record.String("a", "", strings.Repeat("x", 1000)), ErrMessageTooLarge).Partition)
		require.Equal(t, int32(7), refused(record.String("a", "", "x").To(7), ErrUnknownTopic).Partition, "as it was asked for")
		require.NoError(t, p.Close())
		require.Equal(t, int32(-1), refused(value("a", 0), ErrClosed).Partition)
	})
}

func TestCloseDuringALoadLosesNoOutcome(t *testing.T) {
	for range 20 {
		f := newFake(map[string]int{"a": 3})
		p := newProducer(t, f, Config{BatchBytes: 300, MaxRequestBytes: 300})
		var wg sync.WaitGroup
		var mu sync.Mutex
		called, acked := 0, 0
		for range 4 {
			wg.Go(func() {
				for i := range 500 {
					p.SendAsync(context.Background(), value("a", i), func(_ record.Record, err error) {
						mu.Lock()
						defer mu.Unlock()
						called++
						if err == nil {
							acked++
						} else {
							require.ErrorIs(t, err, ErrClosed)
						}
					})
				}
			})
		}
		require.NoError(t, p.Close())
		wg.Wait()
		require.Equal(t, 2000, called)
		require.Equal(t, acked, len(f.values("a", 0))+len(f.values("a", 1))+len(f.values("a", 2)))
	}
}
