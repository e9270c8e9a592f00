//go:build !race

package transaction

// raceEnabled: see race_on_test.go.
const raceEnabled = false
