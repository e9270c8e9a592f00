package protocol

// State is the state of a group. Kafka: ClassicGroupState.
type State uint8

const (
	Dead                State = iota // does not exist (any more)
	Empty                            // no members; offsets may exist
	PreparingRebalance               // members are joining
	CompletingRebalance              // members have joined and wait for the group leader's assignments
	Stable                           // members have their assignments
)

// String returns Kafka's name of the state.
func (s State) String() string {
	names := [...]string{"Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}
	if int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Rebalanced says what a rebalance led to.
type Rebalanced struct {
	Group      string
	Generation int32
	Members    int
	Protocol   string
}

// ProtocolTypeConsumer is the protocol type of consumer groups; others (Kafka
// Connect's) are opaque to the coordinator.
const ProtocolTypeConsumer = "consumer"

// Bounds are the first offset of a partition and the one that the next record will get.
type Bounds struct{ Start, End int64 }

// Clamp returns the offset within b that is nearest to offset.
func (b Bounds) Clamp(offset int64) int64 { return max(b.Start, min(offset, b.End)) }
