package follow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

// A wait for a path ends with a stop, whatever is wrong with the path.
func TestWaitingForAPathEndsWithAStop(t *testing.T) {
	path := Path{1, 2}
	for name, impair := range map[string]func(*Network){
		"cut":    func(n *Network) { n.Cut(path) },
		"slow":   func(n *Network) { n.Slow(path, time.Minute) },
		"paused": func(n *Network) { n.Pause(path) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n Network
				impair(&n)
				stop, reached := make(chan struct{}), make(chan bool, 1)
				go func() { reached <- n.Reach(path, stop) }()
				synctest.Wait()
				require.Empty(t, reached)
				close(stop)
				require.False(t, <-reached)
			})
		})
	}
}

func TestAPathIsReachedWhenItIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := Path{1, 2}
		var n Network
		n.Cut(path)
		reached := make(chan bool, 1)
		go func() { reached <- n.Reach(path, nil) }()
		synctest.Wait()
		n.Pause(path)
		synctest.Wait()
		require.Empty(t, reached)
		n.Mend(path)
		require.True(t, <-reached)
	})
}
