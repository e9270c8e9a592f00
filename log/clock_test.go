package log

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func TestWallClockTellsTheSystemsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallClock
		c.init()
		for _, d := range []time.Duration{0, 1, time.Microsecond, time.Millisecond - 1, 1, time.Second, 300 * time.Microsecond, 300 * time.Microsecond, 24 * time.Hour} {
			time.Sleep(d)
			require.Equal(t, now(), c.now())
		}
	})
}

func TestWallClockFollowsAClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallClock
		c.init()
		c.now()
		c.wall.Add(int64(time.Hour)) // as if the clock had been set back since the last look
		require.Equal(t, now()+time.Hour.Milliseconds(), c.now())
		time.Sleep(wallClockLook)
		require.Equal(t, now(), c.now())
	})
}
