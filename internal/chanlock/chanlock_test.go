package chanlock

import (
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func TestOneAtATimeHasTheLock(t *testing.T) {
	var l Lock
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				l.Lock()
				n++
				l.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 16_000, n)
	require.True(t, l.TryLock())
	require.False(t, l.TryLock())
	l.Unlock()
}

// Virtual time advances while a goroutine waits for the lock.
func TestWaitersAreDurablyBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		l.Lock()
		order := make(chan int, 2)
		for i := range 2 {
			go func() {
				l.Lock()
				order <- i
				l.Unlock()
			}()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		l.Unlock()
		require.Equal(t, 0, <-order)
		require.Equal(t, 1, <-order)
	})
}

func TestLockIsSmall(t *testing.T) {
	require.EqualValues(t, 16, unsafe.Sizeof(Lock{}))
}
