//go:build race

package record

const raceEnabled = true // sync.Pool drops objects at random then: allocations cannot be counted
