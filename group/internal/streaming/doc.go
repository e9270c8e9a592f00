// Package streaming is a streams group (KIP-1071) as a pure state machine: who its members are,
// what the topology of their application is, and which tasks of it each of them has.
//
// A task is a partition of a subtopology. It is active at one member of the group at most, which
// processes it; other processes may have standby tasks, copies of its state. A process, which may
// have several members, has a task in one role at most. The epochs are those of package modern, and
// so is the way in which a member comes to its tasks: it gives up those that it is to lose, says
// so, and is given the new ones as others release them.
//
// The topology counts as soon as all topics are there that it needs, in the shape that it needs:
// see configure. The machine creates none: an answer says which are missing.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step changes
// nothing but when it last heard of a member: it returns records, and Accept applies them.
package streaming
