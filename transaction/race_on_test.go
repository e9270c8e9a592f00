//go:build race

package transaction

// raceEnabled: tests of one goroutine, and storms, look at fewer cases, which take ten times as long.
const raceEnabled = true
