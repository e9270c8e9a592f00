package murmur2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values come from Kafka's own classes.
func TestHashAndPartitionAreTheJavaClients(t *testing.T) {
	for _, c := range []struct {
		key       string
		hash      int32
		of3, of10 int
	}{
		{"", 275646681, 0, 1},
		{"a", -1563381124, 1, 4},
		{"21", -973932308, 0, 0},
		{"abc", 479470107, 0, 7},
		{"foobar", -790332482, 0, 6},
		{"key", -1079937367, 1, 1},
		{"kafka", -798503068, 1, 0},
		{"a-little-bit-long-string", -985981536, 2, 2},
		{"a-little-bit-longer-string", -1486304829, 2, 9},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 2, 7},
		{"\x00", 375494588, 2, 8},
		{"\xff\xff\xff", 1548199422, 0, 2},
	} {
		require.Equal(t, c.hash, int32(Sum([]byte(c.key))), "%q", c.key)
		require.Equal(t, c.of3, Partition([]byte(c.key), 3), "%q", c.key)
		require.Equal(t, c.of10, Partition([]byte(c.key), 10), "%q", c.key)
	}
}

func TestSumDoesNotAllocate(t *testing.T) {
	key := []byte("a-little-bit-long-string")
	require.Zero(t, testing.AllocsPerRun(100, func() { Sum(key) }))
}
