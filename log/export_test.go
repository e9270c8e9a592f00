package log

// sampled returns the number of cases that a test checks of many similar cases, one after the
// other. Under the race detector it is smaller: each case takes some ten times as long, and more
// cases find no further race. The run without the race detector checks all of them.
func sampled(all, race int) int {
	if raceEnabled {
		return race
	}
	return all
}

// Sampled is sampled for tests outside of the package.
func Sampled(all, race int) int { return sampled(all, race) }

// RaceEnabled is raceEnabled for tests outside of the package.
const RaceEnabled = raceEnabled

// AlwaysShare is alwaysShare for tests outside of the package.
func AlwaysShare(d *Directory) error { return d.alwaysShare() }
