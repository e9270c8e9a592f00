package struggle

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// f is a failure, w a call that succeeded, l a Look that finds no fault, L a Look that finds a
// struggling disk.
func TestDiskStrugglesIfAllFailsThroughTwoIntervals(t *testing.T) {
	for _, script := range []string{"l", "fl", "flfL", "fflffLfL", "fllfl", "flwl", "fwfl", "flwfl", "flfwl", "flfLwl", "flfLlfl", "lflfL"} {
		var w Watch
		broken := errors.New("broken")
		for i, step := range script {
			switch step {
			case 'f':
				w.Failed(broken)
			case 'w':
				w.Worked()
			case 'l':
				require.NoError(t, w.Look(), "%s, step %d", script, i)
			case 'L':
				require.Equal(t, broken, w.Look(), "%s, step %d", script, i)
			}
		}
	}
}
