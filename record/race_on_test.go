//go:build race

package record

const raceEnabled = true // sync.Pool drops at random then: allocations cannot be counted
