package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhereRecordsGo(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	scenes := strings.Split(out.String(), "\n\n")
	require.Len(t, scenes, 9)
	for i, fact := range []string{
		// A key stays on its partition: murmur2 puts both on the same.
		`\d \|( de fr| fr de)`,
		`(\d \|( +\d+){5}(\n|$)  ){5}\d \|( +\d+){5}$`, // five each
		`\d \| +(0 +1 +2)`,                             // neighbours share a batch
		`\d \| de de de de de de\n`,
		`0 \| de de de de de de\n  1 \| fr fr fr fr fr fr\n  2 \|\n  3 \|\n  4 \|\n  5 \| it pl se`,
		`0 \|  0  1  2  3  4  5  6  7  8  9\n  1 \| 10 .* 19\n  2 \| 20 .* 29\n  3 \|\n`,
		`0 \|  [01]  [23]  [45]  [67]  [89]\n`,
		`0 \| fr fr fr fr fr fr\n`,
		`Record.To\(4\)`,
	} {
		require.Regexp(t, regexp.MustCompile(fact), scenes[i])
	}
}
