//go:build !race

package transaction

// raceEnabled is described in race_on_test.go.
const raceEnabled = false
