//go:build !race

package segment

// raceEnabled: see race_on_test.go.
const raceEnabled = false
