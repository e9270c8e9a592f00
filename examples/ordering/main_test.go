package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhereThereIsOrder(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, 4, strings.Count(out.String(), "a's records in a's order: true, b's in b's: true, a second reader sees the same: true"),
		"each of the 1 + 3 partitions is one sequence")
	whole := strings.Split(out.String(), "the topic as a whole")
	require.Len(t, whole, 3)
	require.Contains(t, whole[1], "in a's order: true", "one partition: the topic is in order")
	require.Contains(t, whole[2], "in a's order: false", "three: it is not")
	first, _, _ := strings.Cut(whole[1], "\n")
	require.Len(t, regexp.MustCompile(` [ab]\d+\b`).FindAllString(first, -1), 2*each, "all of them are there")
}
