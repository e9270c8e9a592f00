//go:build race

package partition

// raceEnabled: the race detector makes pools forget, so allocations are not counted.
const raceEnabled = true
