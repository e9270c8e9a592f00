package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// While f runs every shard is kept from taking a step, and none is put in place of another.
func TestNothingTakesAStepDuringAHold(t *testing.T) {
	r := noters(&heldLog{}, nil)
	defer r.Close()
	_, err := r.Partitions(t.Context(), false)
	require.NoError(t, err)
	s, err := r.Shard(0)
	require.NoError(t, err)
	answered := make(chan struct{})
	ran := false
	r.Hold(func() {
		ran = true
		require.False(t, r.mu.TryLock(), "a shard could be put in place of another")
		require.False(t, s.mu.TryLock(), "a machine could take a step")
		go func() {
			defer close(answered)
			s.StepAll(noted{text: "late"})
		}()
	})
	require.True(t, ran)
	<-answered
	require.True(t, s.mu.TryLock(), "it goes on afterwards")
	s.mu.Unlock()
}
