package log

// sampled returns how many cases a test looks at that goes through many alike, one after the other:
// fewer under the race detector, where each takes some ten times as long and another one finds no
// other race. What the test proves is proven by the run without.
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
