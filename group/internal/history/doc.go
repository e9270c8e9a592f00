// Package history records why a group rebalanced. A History collects the causes that a group of any
// type notes in its steps, and makes events of them. It has no clock and no I/O.
package history
