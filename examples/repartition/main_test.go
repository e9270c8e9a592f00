package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestProgramShowsWhatRepartitioningRisks(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Regexp(t, `(  limits-[01]  #{8,}\++ +[5-9]\d\d\n){2}(  limits-[2-5]  \++ +[1-4]\d\d\n){4}`, out.String(), "the old ones keep most")
	require.Regexp(t, ` ([5-9]|1\d) of 20 cards have moved .* an older limit after a newer one`, out.String())
	require.Regexp(t, `life 1 copies 250 records\n  life 2 copies 1800 records\n`, out.String())
	require.Regexp(t, `limits-6 has 2000 different records, 50 of them twice`, out.String())
}
