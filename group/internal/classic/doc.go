// Package classic implements the classic group protocol as a pure state machine: members join, the
// group leader assigns, members sync, commit, send heartbeats and leave.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. Step changes a
// draft, which Accept keeps and Discard undoes: a rejected request changes nothing. Apply changes
// the durable state, live and at recovery. The same events at the same times have the same effects,
// independent of the order of maps.
package classic
