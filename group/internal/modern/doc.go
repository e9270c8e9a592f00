// Package modern implements a consumer group of the newer protocol (KIP-848) as a pure state
// machine. The coordinator assigns the partitions; each member moves by heartbeats from its current
// assignment to its target.
//
// The group's epoch grows with every change of its members, their subscriptions or their topics.
// The target assignment is computed for a group epoch. A member's epoch is the epoch of the target
// that it was last reconciled with. A member keeps a revoked partition until its heartbeat confirms
// the revocation. Only then is it assigned again, so no partition has two owners.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step only
// changes sessions: it returns records, and Accept applies them. The same events at the same times
// have the same effects, independent of the order of maps.
package modern
