// Package kinds has the group that a coordinator runs. A group is of one of several kinds, and may
// become one of another kind. Its committed offsets stay the same.
//
// Like the packages of the kinds, it has no clock, lock, goroutine or I/O; a test in
// internal/layering keeps it so.
//
// # A further kind
//
// A new kind implements Kind and has a protocol.GroupType. Its records are in package offsets. It
// needs a line in each of Config.make, typeOf and wants.
package kinds
