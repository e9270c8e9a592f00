// Package modern is a consumer group of the newer protocol (KIP-848) as a pure state machine: the
// coordinator shares the partitions out, and each member goes by heartbeats from what it has to
// what it is meant to have.
//
// Three epochs say how far that is. The group's epoch grows with every change of its members, their
// subscriptions or their topics. The target assignment is computed for a group epoch, which is its
// own. A member has the epoch of the target that it has been brought to. A partition that a member
// has to give up stays its own until it says that it has; only then the next one gets it, so that
// two members never have the same.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step changes
// nothing but when it last heard of a member: it returns records, and Accept applies them. The same
// events at the same times have the same effects: no order of a map shows in them.
package modern
