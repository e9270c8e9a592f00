package protocol

// GroupType is the kind of a group. Kafka: Group.GroupType.
type GroupType string

// The kinds of groups, by the names that Kafka's tools show.
const (
	Classic  GroupType = "classic"  // the group leader assigns partitions
	Consumer GroupType = "consumer" // the coordinator assigns partitions (KIP-848)
	Share    GroupType = "share"    // members acquire single records, several of them from the same partition (KIP-932)
	Streams  GroupType = "streams"  // members are assigned the tasks of a topology (KIP-1071)
)

// State is the state of a group. Kafka: ClassicGroupState, ConsumerGroupState, StreamsGroupState.
type State uint8

const (
	Dead                State = iota // does not exist, or no longer exists
	Empty                            // no members; offsets may exist
	PreparingRebalance               // members are joining
	CompletingRebalance              // members have joined and wait for the group leader's assignments
	Stable                           // members have their assignments
	Assigning                        // consumer groups: a new target assignment is due
	Reconciling                      // consumer groups: members give up and take partitions one by one
	NotReady                         // streams groups: topics of the topology are missing
)

// String returns Kafka's name of the state.
func (s State) String() string {
	names := [...]string{"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "NotReady"}
	if int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Rebalanced is the result of a rebalance.
type Rebalanced struct {
	Group      string
	Generation int32
	Members    int
	Protocol   string
}

// ProtocolTypeConsumer is the protocol type of consumer groups; others (Kafka
// Connect's) are opaque to the coordinator.
const ProtocolTypeConsumer = "consumer"

// Bounds are the start of a partition and its end, the offset of its next record.
type Bounds struct{ Start, End int64 }

// Clamp returns the offset within b that is nearest to offset.
func (b Bounds) Clamp(offset int64) int64 { return max(b.Start, min(offset, b.End)) }
