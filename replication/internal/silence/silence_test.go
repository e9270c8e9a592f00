package silence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// A process that is suspended for longer than the session finds one beat over, and receives again.
func TestSilenceIsCountedInBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(9 * time.Second)
		begin := time.Now()
		s.Begin()
		time.Sleep(time.Minute)
		<-s.C
		require.False(t, s.Over())
		<-s.C
		require.False(t, s.Over())
		<-s.C
		require.True(t, s.Over())
		require.Equal(t, 66*time.Second, time.Since(begin))
	})
}
