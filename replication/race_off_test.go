//go:build !race

package replication

// raceEnabled: everything takes ten times as long, so what is seeded gets fewer seeds.
const raceEnabled = false
