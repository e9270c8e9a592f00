// Package classic is the classic group protocol as a pure state machine: members join, the group
// leader assigns, members sync, commit, send heartbeats and leave.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. Step decides on
// a draft, which becomes the state when its records are accepted and is undone when they are not: a
// request that is refused has changed nothing. Apply remembers, live and at recovery alike. The
// same events at the same times have the same effects: no order of a map shows in them.
package classic
