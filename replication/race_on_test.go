//go:build race

package replication

// raceEnabled reports whether the race detector is on. Tests then take ten times as long, so
// seeded tests use fewer seeds.
const raceEnabled = true
