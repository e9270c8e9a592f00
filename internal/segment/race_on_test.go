//go:build race

package segment

// raceEnabled: the slowest tests check fewer cases, since each takes ten times as long.
const raceEnabled = true
