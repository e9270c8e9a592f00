package consumer

import "fmt"

// Protocol is how members of a group come to their partitions. Kafka: group.protocol.
type Protocol uint8

const (
	// ProtocolClassic has one of the members share the partitions out, by an assignor of
	// Config.Assignors, while all of them wait for each other. It is the default.
	ProtocolClassic Protocol = iota
	// ProtocolConsumer is the newer protocol (KIP-848): the coordinator shares the partitions out,
	// by Config.RemoteAssignor, and brings each member to its share by itself: only what moves is
	// stopped, and nobody waits for a member that has nothing of it. Session timeout and heartbeat
	// interval are the group's; what is new a member in this process hears at once. A static member
	// that is closed leaves for the rest of its session; while one lives, another one of its
	// InstanceID is refused with group.ErrUnreleasedInstance.
	//
	// Members of both protocols may be in one group, unless group.Config.ConsumerMigration says
	// otherwise: to change a group's protocol, restart one member after the other.
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

// newProtocol returns how m speaks to its group.
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
