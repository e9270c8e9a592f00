// Package sample selects some of many similar test cases if there is no time for all. An example
// are the calls of a workload before which a test cuts the power.
//
// The selection depends on a seed. Changing seeds cover all cases in time; a fixed one reproduces a
// failure. It is STRATA_SAMPLE if that is set, as .ci/run does by the commit, and the day in UTC
// otherwise. STRATA_SAMPLE=all and STRATA_LONG select all cases.
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

// today is the default seed. It is computed when the process starts, because a test may need it in
// a testing/synctest bubble, which has its own clock.
var today = uint64(time.Now().Unix() / (24 * 60 * 60))

// Seed returns the seed, and writes it to the test's log. It is 0 if all cases are selected.
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

// Rapid makes pgregory.net/rapid use the seed in this process, unless -rapid.seed is set or all
// cases are selected: runs with the same seed are equal.
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

// Whole reports whether all cases are selected.
func Whole() bool { return os.Getenv(Env) == All || os.Getenv("STRATA_LONG") != "" }

// Hurried reports whether a test should run fewer cases than usual: with -short, and under the race
// detector, where each takes some ten times as long and more cases hardly find other races.
func Hurried() bool { return testing.Short() || race }

// Fewer is OneIn if Hurried; otherwise all cases are chosen.
func Fewer(t testing.TB, n int) func(i int) bool {
	t.Helper()
	if !Hurried() {
		n = 1
	}
	return OneIn(t, n)
}

// OneIn returns a function that reports whether the test runs case i, from 0 on: one of each n
// consecutive cases, counted from 0. The choice depends on the test's name, so that subtests have
// different ones. All are selected if n < 2 or Whole.
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

// Chosen reports whether seed chooses case i: one of each n consecutive cases. OneIn uses it.
func Chosen(seed uint64, i, n int) bool {
	return n < 2 || rand.New(rand.NewPCG(seed, uint64(i/n))).IntN(n) == i%n
}
