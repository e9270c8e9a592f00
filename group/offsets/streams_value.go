package offsets

// The values of the records of streams groups (KIP-1071). Their offsets are plain KeyOffset
// records.

// StreamsGroupValue is the value of KeyStreamsGroup.
type StreamsGroupValue struct {
	Epoch             int32
	MetadataHash      int64 // 0: none
	ValidatedTopology int32 // the topology epoch whose topics are all there; -1: none

	// AssignmentConfigs are the settings that the last target assignment was computed with; nil:
	// not known.
	AssignmentConfigs []StreamsPair
}

// A StreamsPair is a key with its value.
type StreamsPair struct{ Key, Value string }

// StreamsMemberValue is the value of KeyStreamsMember.
type StreamsMemberValue struct {
	InstanceID, RackID   string // "": none
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32 // -1: not told
	TopologyEpoch        int32
	ProcessID            string           // the instance of the application, which may have several members
	Endpoint             *StreamsEndpoint // nil: none
	ClientTags           []StreamsPair    // by key
}

// A StreamsEndpoint is where an instance of an application answers queries of its own.
type StreamsEndpoint struct {
	Host string
	Port uint16
}

// StreamsTasks are tasks of a subtopology.
type StreamsTasks struct {
	Subtopology string
	Partitions  []int32
	// parallel to Partitions: when each was assigned; active tasks of KeyStreamsCurrentAssignment
	// only, may be absent
	Epochs []int32
}

// StreamsTaskRoles are tasks by what their owner is to do with them: process, or keep a copy of
// their state, for good or until it catches up.
type StreamsTaskRoles struct{ Active, Standby, Warmup []StreamsTasks }

// StreamsTargetMemberValue is the value of KeyStreamsTargetMember.
type StreamsTargetMemberValue struct{ StreamsTaskRoles }

// StreamsCurrentAssignmentValue is the value of KeyStreamsCurrentAssignment.
type StreamsCurrentAssignmentValue struct {
	MemberEpoch, PreviousMemberEpoch int32
	State                            int8
	Assigned, PendingRevocation      StreamsTaskRoles
}

// StreamsTopologyValue is the value of KeyStreamsTopology: what an application does, as far as
// topics are concerned.
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
	Partitions int32 // 0: as many as its sources have
	Replicas   int16 // 0: as the brokers see fit
	Configs    []StreamsPair
}

// A StreamsCopartitionGroup are source topics that must have the same number of partitions, as
// indexes in the lists of their subtopology.
type StreamsCopartitionGroup struct{ SourceTopics, SourceTopicRegex, RepartitionSources []int16 }
