// Package image is the metadata of a cluster as a value, and the decisions on it.
//
// An Image is what applying the records of the metadata log comes to: topics, partitions, members,
// settings. A decision is a method that takes a command and returns the records of a change, or an
// error and no record; it changes nothing. Whoever asked commits the records, and then applies
// them: what was decided applies (Apply), live and at recovery alike.
//
// The package only computes, which a test in internal/layering keeps so: no clock, lock, goroutine,
// I/O or randomness (ids are drawn by who asks), and no order of a map shows in what it returns. An
// Image is not safe for concurrent use, but what it has published never changes (Publish).
package image
