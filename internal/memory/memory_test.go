package memory

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func of(principal string, size int) Bound { return Bound{Principal: principal, Bytes: size} }

func TestAPrincipalHasHalfOfABudget(t *testing.T) {
	var b Budget
	first, second, loaded := b.NewCharge(), b.NewCharge(), b.NewCharge()
	require.True(t, first.Fits(of("a", 1000), 500))
	require.False(t, first.Fits(of("a", 1000), 501))
	first.Add(500)
	require.False(t, second.Fits(of("a", 1000), 1))
	require.False(t, first.Fits(of("b", 1000), 1), "it is a's already")
	require.True(t, loaded.Fits(of("", 1000), 500), "no principal")
	loaded.Add(700)
	require.Equal(t, []int{1200, 500, 700}, []int{b.Used(), b.Of("a"), b.Of("")})
	require.False(t, loaded.Fits(of("", 1000), 0))
	require.False(t, loaded.Fits(of("b", 2000), 301))
	require.Equal(t, 700, b.Of("b"), "the first that has it grow")
	first.Add(-500)
	require.Equal(t, []int{700, 0}, []int{b.Used(), b.Of("a")})
	require.True(t, first.Fits(of("c", 1000), 1), "it may be another principal's")
}

// After a restart no principal is charged for the state that it had stored before.
func TestAPrincipalHasHalfOfWhatLoadedStateLeaves(t *testing.T) {
	var b Budget
	loaded, again, other := b.NewCharge(), b.NewCharge(), b.NewCharge()
	loaded.Add(500)
	require.True(t, again.Fits(of("a", 1000), 250))
	require.False(t, again.Fits(of("a", 1000), 251))
	again.Add(250)
	require.True(t, other.Fits(of("b", 1000), 250), "room for another principal is left")
	loaded.Add(-400)
	require.True(t, again.Fits(of("a", 1000), 200), "the loaded state was deleted")
}

func TestMembersJoinHoweverMuchWasLoaded(t *testing.T) {
	var b Budget
	loaded, kept := b.NewCharge(), b.NewCharge()
	loaded.Add(5000)
	require.False(t, kept.Fits(of("a", 1000), 1), "a log would grow without end")
	require.True(t, b.Take(of("a", 1000), 500))
	require.False(t, b.Take(of("a", 1000), 1))
	require.True(t, b.Take(of("b", 1000), 500))
	require.False(t, b.Take(of("c", 1000), 1))
	b.Give("a", 100)
	require.True(t, b.Take(of("c", 1000), 100))
}

func TestARequestWithoutABoundIsNotRefused(t *testing.T) {
	var b Budget
	kept := b.NewCharge()
	require.True(t, kept.Fits(BoundOf(t.Context()), 1<<40))
	kept.Add(1 << 40)
	require.Zero(t, b.Last())
	within := of("a", 1000)
	require.False(t, b.NewCharge().Fits(BoundOf(With(t.Context(), within)), 1))
	require.Equal(t, Bound{Bytes: 1000}, b.Last())
}

func TestMemoryThatAnotherBrokerTakesOverIsGivenBack(t *testing.T) {
	var b Budget
	func() {
		c := b.NewCharge()
		require.True(t, c.Fits(of("a", 1000), 500))
		c.Add(500)
		require.False(t, c.Fits(of("a", 1000), 1))
		runtime.KeepAlive(c)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used == 0 && len(b.of) == 0
	}, 20*time.Second, time.Millisecond)
}
