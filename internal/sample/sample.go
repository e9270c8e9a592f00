// Package sample chooses which of many cases alike a test looks at where there is no time for all,
// such as the calls of a workload before which the power fails.
//
// The choice follows from a seed. A seed that moves on covers all cases in time; one that stays has
// a test fail again. It is STRATA_SAMPLE where that is set, as .ci/run does by the commit, and the
// day in UTC otherwise. STRATA_SAMPLE=all, and STRATA_LONG, ask for all cases.
package sample

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Env is the environment variable with the seed, a number or All.
const (
	Env = "STRATA_SAMPLE"
	All = "all"
)

// today is the seed where none is set. It is read when the process starts: a test may ask for it in
// a testing/synctest bubble, which has a clock of its own.
var today = uint64(time.Now().Unix() / (24 * 60 * 60))

// Seed returns the seed, and notes it in the test's log, which is shown of a test that fails. It
// is 0 where all cases are asked for.
func Seed(t testing.TB) uint64 {
	t.Helper()
	if Whole() {
		return 0
	}
	seed := today
	if set := os.Getenv(Env); set != "" {
		var err error
		if seed, err = strconv.ParseUint(set, 10, 64); err != nil {
			t.Fatalf("%s=%s: neither a number nor %s", Env, set, All)
		}
	}
	t.Logf("the cases of %s=%d", Env, seed)
	return seed
}

// Rapid has the properties that pgregory.net/rapid checks in this process go by the seed, unless
// -rapid.seed says otherwise or all cases are asked for: a run of the same seed is the same.
func Rapid(t testing.TB) {
	t.Helper()
	f := flag.Lookup("rapid.seed")
	if f == nil || f.Value.String() != "0" || Whole() {
		return
	}
	if err := f.Value.Set(strconv.FormatUint(Seed(t), 10)); err != nil {
		t.Fatal(err)
	}
}

// Whole reports whether all cases are asked for.
func Whole() bool { return os.Getenv(Env) == All || os.Getenv("STRATA_LONG") != "" }

// Hurried reports whether a test should look at fewer cases than usual: with -short, and under the
// race detector, where each takes some ten times as long and another one finds no other race.
func Hurried() bool { return testing.Short() || race }

// OneIn returns a function that tells of case i, from 0 on, whether the test looks at it: of each n
// cases in a row, from a multiple of n on, it chooses one. The choice depends on the test's name,
// so that subtests look at different ones. All are chosen where n < 2 or Whole.
func OneIn(t testing.TB, n int) func(i int) bool {
	t.Helper()
	if n < 2 || Whole() {
		return func(int) bool { return true }
	}
	seed := Seed(t)
	for _, c := range t.Name() {
		seed = seed*31 + uint64(c)
	}
	return func(i int) bool { return Chosen(seed, i, n) }
}

// Chosen is what OneIn goes by: of each n cases in a row seed chooses one.
func Chosen(seed uint64, i, n int) bool {
	return n < 2 || rand.New(rand.NewPCG(seed, uint64(i/n))).IntN(n) == i%n
}
