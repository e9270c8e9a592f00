package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(bankDir) != "" {
		main() // the test's own binary is the bank
		return
	}
	leaktest.Main(m)
}

func TestProgramShowsThatMoneyNeitherAppearsNorVanishes(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(t.Context(), &b))
	out := b.String()
	once, often, ok := strings.Cut(out, atLeast+":")
	require.True(t, ok, out)

	audits := func(part string) (rows [][]int) {
		for _, m := range regexp.MustCompile(`(?m)^  (?:kill \d+|at the end) +(\d+) +(\d+) +(\d+) +([+-]\d+) +(\d+)$`).FindAllStringSubmatch(part, -1) {
			var row []int
			for _, f := range m[1:] {
				n, err := strconv.Atoi(f)
				require.NoError(t, err)
				row = append(row, n)
			}
			rows = append(rows, row)
		}
		require.NotEmpty(t, rows, part)
		return rows
	}
	rows := audits(once)
	require.Greater(t, len(rows), 1, "it was killed")
	for _, row := range rows {
		require.Equal(t, row[1], row[2], "debits and credits of every audit\n%s", out)
		require.Zero(t, row[4], out)
	}
	require.Contains(t, once, "hold 1000, and should hold 1000; 400 of 400 transfers were made exactly once")

	require.Regexp(t, `\nA part of the log .*:\n  (d*[CA] ?){5,16}\n`, once)
	require.NotContains(t, often, "A part of the log")

	rows = audits(often)
	require.Greater(t, len(rows), 1, "it was killed")
	require.Positive(t, rows[len(rows)-1][4], "some transfers are made again\n%s", out)
	require.NotContains(t, often, "400 of 400")
}
