package mirror_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/mirror"
)

// The program that ends a mirror also closes its clients.
func TestRunReturnsNilAndDrainTheErrorOfTheContextWhenTheCallerEndsThem(t *testing.T) {
	for range 40 {
		for _, draining := range []bool{false, true} {
			bubble(t, func(t *testing.T, w *world) {
				far := w.dial()
				fill(t, w.local, 0, 3000)
				w.server.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce, kafka.EndTxn}, Delay: 200 * time.Millisecond, Times: kafkatest.Always})
				f := forward(t, w.local, far, mirror.ForwardConfig{RecordsPerSecond: 1000})
				ctx, cancel := context.WithCancel(t.Context())
				context.AfterFunc(ctx, func() { _ = far.Close() })
				time.AfterFunc(time.Duration(rand.IntN(2000))*time.Millisecond, cancel)
				if draining {
					require.Equal(t, context.Canceled, f.Drain(ctx))
				} else {
					require.NoError(t, f.Run(ctx))
				}
			})
		}
	}
}

// Which of them continues is not defined: each takes the transactional id from the others.
func TestOneOfTheMirrorsThatStartAtTheSameMomentContinues(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for range 5 {
			bubble(t, func(t *testing.T, w *world) {
				fill(t, w.local, 0, 300)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, n)
				for range n {
					far := w.dial()
					f := forward(t, w.local, far, mirror.ForwardConfig{})
					delay := time.Duration(rand.IntN(30)) * time.Millisecond
					go func() {
						time.Sleep(delay)
						ended <- f.Run(ctx)
					}()
				}
				for i := 0; i < 20; i++ { // a mirror notices with its next transaction
					time.Sleep(10 * time.Second)
					fill(t, w.local, 300+30*i, 30)
				}
				time.Sleep(time.Minute)
				for range n - 1 {
					select {
					case err := <-ended:
						stopped(t, err, mirror.ErrFenced)
					default:
						require.FailNow(t, "several continue")
					}
				}
				select {
				case err := <-ended:
					require.NoError(t, err, "one continues")
				default:
				}
				same(t, w.local, w.server.Cluster())
				cancel()
				require.NoError(t, <-ended)
			})
		}
	}
}
