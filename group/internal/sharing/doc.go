// Package sharing is a share group (KIP-932) as a pure state machine: who its members are, and from
// which partitions each of them takes records. Several members may have the same partition, so no
// member waits for another one to give something up: a member has what it is meant to have as soon
// as it is told.
//
// The epochs are those of package modern. Only partitions whose state is initialised in
// __share_group_state are assigned: Missing says which are not, the owner of the machine
// initialises them, and says so in an event. The group remembers them, so that they are deleted
// with it.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step changes
// nothing but when it last heard of a member: it returns records, and Accept applies them.
package sharing
