package alarm

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// calls returns an Alarm that counts its calls.
func calls() (*Alarm, *atomic.Int32) {
	n := new(atomic.Int32)
	return &Alarm{Do: func() { n.Add(1) }}, n
}

// at runs the bubble until d has passed since start and returns the number of calls by then.
func at(start time.Time, d time.Duration, n *atomic.Int32) int32 {
	time.Sleep(time.Until(start.Add(d)))
	synctest.Wait()
	return n.Load()
}

func TestEarliestTimeWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := calls()
		start := time.Now()
		require.True(t, a.By(start.Add(3*time.Second)))
		require.True(t, a.By(start.Add(2*time.Second)))
		require.True(t, a.By(start.Add(9*time.Second)))
		require.True(t, a.After(time.Second), "armed already")
		require.EqualValues(t, 0, at(start, 2*time.Second-1, n))
		require.EqualValues(t, 1, at(start, 2*time.Second, n))
		require.EqualValues(t, 1, at(start, time.Hour, n), "once each time it is armed")
		require.True(t, a.After(time.Second))
		require.EqualValues(t, 1, at(start, time.Hour+time.Second-1, n))
		require.EqualValues(t, 2, at(start, time.Hour+time.Second, n))
		require.True(t, a.By(start), "in the past: at once")
		synctest.Wait()
		require.EqualValues(t, 3, n.Load())
	})
}

func TestDisarmedAlarmDoesNotFireAndCanBeArmedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := calls()
		start := time.Now()
		a.Disarm()
		a.After(time.Second)
		a.Disarm()
		require.EqualValues(t, 0, at(start, time.Minute, n))
		a.After(time.Minute)
		require.EqualValues(t, 1, at(start, 2*time.Minute, n))
	})
}

func TestAlarmArmedByItsOwnFunctionGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := calls()
		start := time.Now()
		a.Do = func() {
			if n.Add(1); n.Load() < 5 {
				a.After(time.Second)
			}
		}
		a.After(time.Second)
		require.EqualValues(t, 4, at(start, 5*time.Second-1, n))
		require.EqualValues(t, 5, at(start, time.Hour, n))
	})
}

// Wait returns as soon as the function has returned, although the alarm was armed for a much later
// time while it fired.
func TestAlarmArmedWhileItFiresIsStillStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // lock of the alarm's user: its function locks it first
		a, n := calls()
		a.Do = func() { mu.Lock(); defer mu.Unlock(); n.Add(1) }
		start := time.Now()
		a.After(time.Second)
		mu.Lock()
		time.Sleep(time.Second) // the function has begun, or is about to
		a.Disarm()
		a.After(time.Hour)
		mu.Unlock()
		synctest.Wait()
		require.LessOrEqual(t, n.Load(), int32(1))
		a.Stop()
		a.Wait()
		require.Equal(t, time.Second, time.Since(start), "Wait waited for an hour")
		require.False(t, a.By(start))
		require.False(t, a.After(0))
		synctest.Wait()
		require.LessOrEqual(t, n.Load(), int32(1))
	})
}

// A late firing finds the alarm armed for a later time: the call is made then, and only then.
func TestLateFiringDoesNotCallEarlyAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, n := calls()
		start := time.Now()
		a.After(time.Hour)
		a.firings.Add(1)
		a.fire() // as if the timer had fired before it was set again
		require.EqualValues(t, 0, at(start, time.Hour-1, n))
		require.EqualValues(t, 1, at(start, time.Hour, n))
		a.Stop()
		a.Wait()
	})
}

func TestCallsDoNotOverlapAndWaitWaitsForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, ran atomic.Int32
		a := &Alarm{}
		a.Do = func() {
			require.EqualValues(t, 1, running.Add(1))
			time.Sleep(10 * time.Second)
			running.Add(-1)
			ran.Add(1)
		}
		start := time.Now()
		a.After(time.Second)
		time.Sleep(2 * time.Second)
		a.After(time.Second) // due while it runs
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, ran.Load())
		a.Stop()
		a.Wait()
		require.EqualValues(t, 2, ran.Load())
		require.Equal(t, 21*time.Second, time.Since(start))
	})
}

func TestManyGoroutinesArmDisarmAndStop(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			a, n := calls()
			var running atomic.Int32
			a.Do = func() {
				require.EqualValues(t, 1, running.Add(1))
				n.Add(1)
				running.Add(-1)
			}
			var wg sync.WaitGroup
			for g := range uint64(4) {
				rnd := rand.New(rand.NewPCG(seed, g))
				wg.Go(func() {
					for range 200 {
						switch rnd.IntN(4) {
						case 0:
							a.By(time.Now().Add(time.Duration(rnd.IntN(3)) * time.Millisecond))
						case 1:
							a.After(time.Duration(rnd.IntN(3)) * time.Millisecond)
						case 2:
							a.Disarm()
						default:
							time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
						}
					}
				})
			}
			wg.Wait()
			before := n.Load()
			a.Disarm()
			a.After(time.Minute)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.GreaterOrEqual(t, n.Load(), before+1, "the last arming got lost")
			a.After(time.Hour)
			now := time.Now()
			a.Stop()
			a.Wait()
			require.Equal(t, now, time.Now())
		})
	}
}
