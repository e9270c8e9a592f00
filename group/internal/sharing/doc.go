// Package sharing implements a share group (KIP-932) as a pure state machine: its members, and the
// partitions from which each of them acquires records. Several members may have the same partition,
// so there is no revocation to wait for: a member has its target with the next heartbeat.
//
// The epochs are those of package modern. Only partitions with initialised state in
// __share_group_state are assigned. Missing returns the others; the owner of the machine
// initialises them and reports it with an event. The group keeps the list, to delete the states
// with the group.
//
// It has no clock, lock, goroutine or I/O; a test in internal/layering keeps it so. A Step only
// changes sessions: it returns records, and Accept applies them.
package sharing
