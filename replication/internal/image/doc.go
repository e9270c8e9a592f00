// Package image implements the metadata of a cluster as a value, and the decisions on it.
//
// An Image is the result of applying the records of the metadata log: topics, partitions, members
// and settings. A decision is a method that takes a command and returns the records of a change, or
// an error and no record; it changes nothing. The caller commits the records, and then applies them
// (Apply), live and at recovery alike.
//
// The package only computes, which a test in internal/layering verifies: it has no clock, lock,
// goroutine, I/O or randomness (callers draw ids), and its results do not depend on the order of a
// map. An Image is not safe for concurrent use, but its published values never change (Publish).
package image
