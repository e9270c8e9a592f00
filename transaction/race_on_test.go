//go:build race

package transaction

// raceEnabled makes the slowest tests run fewer cases, since each takes ten times as long.
const raceEnabled = true
