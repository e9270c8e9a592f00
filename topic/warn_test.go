package topic

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func warned(t *testing.T, props map[string]string, replicas int) string {
	t.Helper()
	s, err := Parse(props, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	s.Warn(slog.New(slog.NewTextHandler(&out, nil)), "orders", replicas)
	return out.String()
}

func TestWarnsWhenOneBrokersLossWouldStopWrites(t *testing.T) {
	line := warned(t, map[string]string{"min.insync.replicas": "3"}, 3)
	require.Contains(t, line, "level=WARN")
	require.Contains(t, line, "topic=orders key=min.insync.replicas value=3")
	require.Contains(t, line, "recommended")
	require.Empty(t, warned(t, map[string]string{"min.insync.replicas": "2"}, 3))
	require.Empty(t, warned(t, nil, 1), "nothing to recommend for a single replica")
	require.Contains(t, warned(t, map[string]string{"min.insync.replicas": "2"}, 2), "min.insync.replicas")
}

func TestWarnsWhenSegmentsAreTooLargeForTheRetention(t *testing.T) {
	require.Contains(t, warned(t, map[string]string{"retention.ms": "3600000"}, 1), "key=segment.ms")
	week := warned(t, map[string]string{"retention.ms": "604800000"}, 1)
	require.Contains(t, week, "key=segment.ms value=604800000")
	require.Contains(t, week, "kept for up to 336h0m0s")
	require.Contains(t, warned(t, map[string]string{"retention.ms": "9223372036854775807", "segment.ms": "9223372036854775807"}, 1), "kept for up to 2562047h47m16.854775807s")
	require.Contains(t, warned(t, map[string]string{"retention.bytes": "104857600"}, 1), "key=segment.bytes")
	require.Empty(t, warned(t, map[string]string{"retention.ms": "3600000", "segment.ms": "600000"}, 1))
	require.Empty(t, warned(t, map[string]string{"retention.ms": "3600000", "cleanup.policy": "compact"}, 1), "nothing expires")
	require.Empty(t, warned(t, map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}, 1))
	require.Empty(t, warned(t, nil, 1))
}

func TestWarnsWhenSegmentsAreSoSmallThatFilesAbound(t *testing.T) {
	require.Contains(t, warned(t, map[string]string{"segment.ms": "60000"}, 1), "fewer files")
	require.Contains(t, warned(t, map[string]string{"retention.bytes": "10737418240", "segment.bytes": "1048576"}, 1), "fewer files")
	require.Contains(t, warned(t, map[string]string{"retention.bytes": "1001000", "internal.segment.bytes": "1000"}, 1), "fewer files")
}
