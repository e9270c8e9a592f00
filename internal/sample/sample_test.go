package sample

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// chosenOf returns the cases that OneIn chooses of the first 30.
func chosenOf(t *testing.T, n int) (all []int) {
	look := OneIn(t, n)
	for i := range 30 {
		if look(i) {
			all = append(all, i)
		}
	}
	return all
}

func TestSeedChoosesOneOfEachSoManyCases(t *testing.T) {
	t.Setenv("STRATA_LONG", "")
	seen := map[int]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"} {
		t.Setenv(Env, seed)
		all := chosenOf(t, 5)
		require.Len(t, all, 6)
		for k, i := range all {
			require.Equal(t, k, i/5)
			seen[i] = true
		}
		require.Equal(t, all, chosenOf(t, 5), "a seed chooses the same again")
	}
	require.Greater(t, len(seen), 25, "seeds choose different ones")
}

func TestSubtestsLookAtDifferentCases(t *testing.T) {
	t.Setenv("STRATA_LONG", "")
	t.Setenv(Env, "1")
	var one, other []int
	t.Run("one", func(t *testing.T) { one = chosenOf(t, 5) })
	t.Run("other", func(t *testing.T) { other = chosenOf(t, 5) })
	require.NotEqual(t, one, other)
}

func TestAllCasesAreChosenWhereTheyAreAskedFor(t *testing.T) {
	t.Setenv("STRATA_LONG", "")
	t.Setenv(Env, All)
	require.Len(t, chosenOf(t, 5), 30)
	t.Setenv(Env, "1")
	require.Len(t, chosenOf(t, 1), 30)
	t.Setenv("STRATA_LONG", "1")
	require.Len(t, chosenOf(t, 5), 30)
}
