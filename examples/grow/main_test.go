package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsThatKeysMoveAndRecordsDoNot(t *testing.T) {
	// every first send after AddPartitions has returned uses the new number of partitions
	for range 20 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		require.Contains(t, out.String(), "\nNew records of 20 of 24 keys go to another partition")
		require.Len(t, regexp.MustCompile(`(?m)^user-\d+ +\d +[45]   moves$`).FindAllString(out.String(), -1), 9, "to the new partitions")
		require.Contains(t, out.String(), "  orders-5:  0 ->  0\n")
	}
}
