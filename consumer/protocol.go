package consumer

import "fmt"

// Protocol selects how the members of a group get their partitions. Kafka: group.protocol.
type Protocol uint8

const (
	// ProtocolClassic lets one member assign the partitions, with an assignor of Config.Assignors,
	// while all members wait for each other. It is the default.
	ProtocolClassic Protocol = iota
	// ProtocolConsumer is the newer protocol (KIP-848). The coordinator assigns the partitions with
	// Config.RemoteAssignor and moves each member to its assignment separately. Only partitions
	// that move are stopped, and members wait only for the owners of partitions that move to them.
	// The group's session timeout and heartbeat interval apply. A member in this process is
	// notified of changes immediately.
	//
	// A static member that is closed leaves temporarily, until its session times out. While it is
	// active, another member with its InstanceID is rejected with group.ErrUnreleasedInstance.
	//
	// A group may have members of both protocols, unless group.Config.ConsumerMigration forbids it.
	// To change a group's protocol, restart its members one by one.
	ProtocolConsumer
)

var protocolNames = [...]string{"classic", "consumer"}

// String returns Kafka's name of the protocol.
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// newProtocol returns m's implementation of its group's protocol.
func newProtocol(m *membership, groups GroupBackend) (groupProtocol, error) {
	if m.c.cfg.Protocol == ProtocolClassic {
		return newClassicMember(m), nil
	}
	newer, ok := groups.(ConsumerGroupBackend)
	if !ok {
		return nil, &ConfigError{"Protocol", "this backend has no groups of the newer protocol"}
	}
	return newModernMember(m, newer), nil
}
