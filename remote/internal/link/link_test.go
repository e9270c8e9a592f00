package link

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kgo adds the wait of a request to its timeout only if it is one of these types.
func TestFetchWithABoundOnItsVersionMayWait(t *testing.T) {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis = 60_000
	bound, ok := AtMost(12, fetch).(kmsg.TimeoutRequest)
	require.True(t, ok)
	require.EqualValues(t, 60_000, bound.Timeout())
	require.EqualValues(t, 12, AtMost(12, fetch).MaxVersion())
}
