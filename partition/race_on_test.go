//go:build race

package partition

// raceEnabled: under the race detector pools drop objects, so allocations are not counted.
const raceEnabled = true
