package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// While f runs, no shard takes a step and none is replaced.
func TestNothingTakesAStepDuringAHold(t *testing.T) {
	r := noters(&heldLog{}, nil)
	defer r.Close()
	_, err := r.Partitions(t.Context(), false)
	require.NoError(t, err)
	s, err := r.Shard(0)
	require.NoError(t, err)
	answered := make(chan struct{})
	ran, replaced, stepped := false, false, false
	r.Hold(func() { // it must return, or Close would wait for it
		ran = true
		if replaced = r.mu.TryLock(); replaced {
			r.mu.Unlock()
		}
		if stepped = s.mu.TryLock(); stepped {
			s.mu.Unlock()
		}
		go func() {
			defer close(answered)
			s.StepAll(noted{text: "late"})
		}()
	})
	require.True(t, ran)
	require.False(t, replaced, "a shard could be put in place of another")
	require.False(t, stepped, "a machine could take a step")
	<-answered
	require.True(t, s.mu.TryLock(), "it goes on afterwards")
	s.mu.Unlock()
}
