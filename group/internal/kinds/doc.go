// Package kinds has the group that a coordinator runs: of one of several kinds, and able to become
// one of another. The offsets that it has committed are the same whatever it is.
//
// Like the kinds it only computes; a test in internal/layering keeps it so.
//
// # A further kind
//
// It implements Kind, has a protocol.GroupType, its records in package offsets, and a line in each
// of Config.make, typeOf and wants.
package kinds
