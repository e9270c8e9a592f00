package uncleared

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesHasRoom(t *testing.T) {
	for n := 1; n < 100_000; n = n*3 + 1 {
		p := Bytes(n)
		require.Empty(t, p)
		require.GreaterOrEqual(t, cap(p), n)
		p = append(p, bytes.Repeat([]byte("x"), cap(p))...) // the whole capacity is usable
		require.Equal(t, byte('x'), p[cap(p)-1])
	}
}

func TestGrowKeepsWhatThereIs(t *testing.T) {
	p := []byte("content")
	for n := range 1000 {
		q := Grow(p, n)
		require.Equal(t, "content", string(q))
		require.GreaterOrEqual(t, cap(q)-len(q), n)
	}
	roomy := append(make([]byte, 0, 100), "content"...)
	require.Same(t, &roomy[0], &Grow(roomy, 93)[0], "no copy where there is room")
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = Grow(p, 5000) }), 1.0)
}

func TestGrowDoubles(t *testing.T) {
	var p []byte
	grown := 0
	for range 100_000 {
		before := cap(p)
		p = append(Grow(p, 1), 'x')
		if cap(p) != before {
			grown++
		}
	}
	require.Less(t, grown, 20)
}
