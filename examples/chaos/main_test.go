package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// In real time: a virtual clock advances only when all goroutines are idle, and this producer
// never is.
func TestProgramLosesNothingHoweverThingsBreak(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			require.NoError(t, run(t.Context(), &out, seed))
			require.Regexp(t, `^Random faults: [1-9]\d* brokers lost power, [1-9]\d* paths between brokers were cut`, out.String())
			require.Regexp(t, `\n[1-9]\d* leaders were elected, [1-9]\d* times a replica left`, out.String())
			require.Regexp(t, `(\n  broker \d  [L#.]{80}){3}\n`, out.String())
			require.Regexp(t, `\n  broker \d  .*[.].*\n`, out.String(), "a broker is out of sync for a while")
			require.Regexp(t, `A consumer reads all [1-9]\d*, once and in order\.\n(The files of broker \d hold the same [1-9]\d*\.\n){3}$`, out.String())
		})
	}
}

func TestProofFindsWhatIsLostDoubledOrOutOfOrder(t *testing.T) {
	require.NoError(t, same("", []string{"0", "1"}, []string{"0", "1"}))
	for _, bad := range [][]string{{"0"}, {"0", "0", "1"}, {"1", "0"}, {"0", "1", "2"}} {
		require.Error(t, same("", []string{"0", "1"}, bad))
	}
}
