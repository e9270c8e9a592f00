// Package streaming implements a streams group (KIP-1071) as a pure state machine: its members, the
// topology of their application, and the tasks of each member.
//
// A task is a partition of a subtopology. It is active at one member of the group at most, which
// processes it; other processes may have standby tasks, copies of its state. A process, which may
// have several members, has a task in one role at most. The epochs, and the revocation of tasks
// before others get them, are those of package modern.
//
// The topology is in effect as soon as its topics exist with the right partitions: see configure.
// The machine creates none: the response lists the missing ones.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step only
// changes sessions: it returns records, and Accept applies them.
package streaming
