package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTornWriteIsCutWhereItsMarkSays(t *testing.T) {
	torn := Torn{Base: 7, Size: 100, Next: 9}
	for size, want := range map[int64]string{
		0:   "", // it was truncated before, or removed and created again
		99:  "",
		100: "",
		101: "cut 1 bytes off 00000000000000000007.log, offset 9 is next",
		500: "cut 400 bytes off 00000000000000000007.log, offset 9 is next",
	} {
		step, ok := torn.Cut(size)
		require.Equal(t, want != "", ok, size)
		if ok {
			require.Equal(t, want, step.String())
			require.NotEmpty(t, step.Reason)
		}
	}
}
