package killloop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestCheckerTellsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []int64
		want    Report
	}{
		"all":       {[]int64{0, 1, 2}, Report{}},
		"doubled":   {[]int64{0, 1, 1, 2}, Report{Duplicates: 1}},
		"lost":      {[]int64{0, 2}, Report{Lost: 1}},
		"lost tail": {[]int64{0, 1}, Report{Lost: 1}},
		"reordered": {[]int64{0, 2, 1}, Report{Lost: 1, Duplicates: 0, Reordered: 1}},
		"nothing":   {nil, Report{Lost: 3}},
	} {
		x, rep := newChecker(), Report{}
		for _, n := range c.numbers {
			require.NoError(t, x.take(value(0, n)))
		}
		x.add(&rep, []int64{3})
		require.Equal(t, c.want, rep, name)
		require.Equal(t, c.want != Report{}, rep.Err() != nil)
	}
	require.Error(t, newChecker().take([]byte("0:1:2")))
	require.Error(t, newChecker().take([]byte("garbage")))
}
