package offsets

// The values of the records of streams groups (KIP-1071). Their offsets are plain KeyOffset
// records.

// StreamsGroupValue is the value of KeyStreamsGroup.
type StreamsGroupValue struct {
	Epoch             int32
	MetadataHash      int64 // 0: none
	ValidatedTopology int32 // topology epoch whose topics all exist; -1: none

	// AssignmentConfigs are the settings used for the last target assignment; nil: unknown.
	AssignmentConfigs []StreamsPair
}

// A StreamsPair is a key with its value.
type StreamsPair struct{ Key, Value string }

// StreamsMemberValue is the value of KeyStreamsMember.
type StreamsMemberValue struct {
	InstanceID, RackID   string // "": none
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32 // -1: unknown
	TopologyEpoch        int32
	ProcessID            string           // instance of the application, which may have several members
	Endpoint             *StreamsEndpoint // nil: none
	ClientTags           []StreamsPair    // by key
}

// A StreamsEndpoint is the address where an application instance serves interactive queries.
type StreamsEndpoint struct {
	Host string
	Port uint16
}

// StreamsTasks are tasks of a subtopology.
type StreamsTasks struct {
	Subtopology string
	Partitions  []int32
	// parallel to Partitions: epoch of each assignment; only in active tasks of
	// KeyStreamsCurrentAssignment, may be absent
	Epochs []int32
}

// StreamsTaskRoles are tasks by the role of their owner: it processes them, or keeps a copy of
// their state, permanently (Standby) or until it catches up (Warmup).
type StreamsTaskRoles struct{ Active, Standby, Warmup []StreamsTasks }

// StreamsTargetMemberValue is the value of KeyStreamsTargetMember.
type StreamsTargetMemberValue struct{ StreamsTaskRoles }

// StreamsCurrentAssignmentValue is the value of KeyStreamsCurrentAssignment.
type StreamsCurrentAssignmentValue struct {
	MemberEpoch, PreviousMemberEpoch int32
	State                            int8
	Assigned, PendingRevocation      StreamsTaskRoles
}

// StreamsTopologyValue is the value of KeyStreamsTopology: the topology of an application, as far
// as it concerns topics.
type StreamsTopologyValue struct {
	Epoch         int32
	Subtopologies []StreamsSubtopology
}

// A StreamsSubtopology is a part of a topology that shares no state with the others. It has a task
// for each partition of its source topics.
type StreamsSubtopology struct {
	ID                 string
	SourceTopics       []string
	SourceTopicRegex   []string
	Changelogs         []StreamsTopic
	RepartitionSinks   []string
	RepartitionSources []StreamsTopic
	CopartitionGroups  []StreamsCopartitionGroup
}

// A StreamsTopic is an internal topic of an application.
type StreamsTopic struct {
	Name       string
	Partitions int32 // 0: the same as its source topics
	Replicas   int16 // 0: the brokers' default
	Configs    []StreamsPair
}

// A StreamsCopartitionGroup are source topics that must have the same number of partitions, as
// indexes in the lists of their subtopology.
type StreamsCopartitionGroup struct{ SourceTopics, SourceTopicRegex, RepartitionSources []int16 }
