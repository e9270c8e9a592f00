package group

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// checkEvents checks the events of a Coordinator until it is closed: each rebalance has causes that
// are known, and its times are in order. The caller calls check after Close.
func checkEvents(t testing.TB, c *Coordinator) (check func()) {
	events := c.Events(ctx)
	return func() {
		t.Helper()
		for e := range events {
			checkEvent(t, e)
		}
	}
}

func checkEvent(t testing.TB, e Event) {
	t.Helper()
	switch e.Kind {
	case EventsMissed, CommitRefused:
		return
	}
	require.NotEmpty(t, e.Causes, "%+v", e)
	for _, cause := range e.Causes {
		require.NotEqual(t, CauseUnknown, cause.Kind, "%+v", e)
		require.False(t, cause.Time.Before(e.Began), "%+v", e)
	}
	require.False(t, e.Began.IsZero() || e.Time.Before(e.Began), "%+v", e)
	if e.Kind == Assigned {
		require.False(t, e.Joined.Before(e.Began), "%+v", e)
		require.False(t, e.Ended.Before(e.Joined), "%+v", e)
		require.LessOrEqual(t, len(e.Members), e.Size, "%+v", e)
	}
}
