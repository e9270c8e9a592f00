package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramReadsFromAnyPointInTime(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	scenes := strings.Split(out.String(), "\n\n")
	require.Len(t, scenes, 6)
	require.Regexp(t, `from the start:\n  offset  0  00:00 .*\n  offset  1 .*\n  offset  2 .*\n  ###\|\.{21}  position 3, lag 21$`, scenes[1])
	require.Regexp(t, `from 14:30:\n  offset 15  15:00 .*\n.*\n.*\n  \.{15}###\|\.{6}  position 18, lag 6$`, scenes[2])
	require.Regexp(t, `the last two:\n  offset 22 .*\n  offset 23 .*\n  \.{22}##\|  position 24, lag 0$`, scenes[3])
	require.Contains(t, scenes[4], "newest timestamp is at offset 23; reading removes nothing: the log still has 24 records")
	require.Regexp(t, `replayed from the start:\n  offset  0 `, scenes[5])
}
