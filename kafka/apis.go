package kafka

// apis is what is served, in the version ranges of Kafka 4.3.
var apis = []api{
	{key: Produce, min: 3, max: 13, start: produce},
	{key: Fetch, min: 4, max: 18, try: tryFetch, serve: handle((*call).fetch), waits: true},
	{key: ListOffsets, min: 1, max: 11, serve: handle((*call).listOffsets)},
	{key: Metadata, min: 0, max: 13, serve: handle((*call).metadata)},
	{key: OffsetCommit, min: 2, max: 10, serve: handle((*call).offsetCommit), waits: true},
	{key: OffsetFetch, min: 1, max: 10, serve: handle((*call).offsetFetch), waits: true},
	{key: FindCoordinator, min: 0, max: 6, serve: handle((*call).findCoordinator), waits: true},
	{key: JoinGroup, min: 0, max: 9, serve: handle((*call).joinGroup), waits: true},
	{key: Heartbeat, min: 0, max: 4, serve: handle((*call).heartbeat)},
	{key: LeaveGroup, min: 0, max: 5, serve: handle((*call).leaveGroup), waits: true},
	{key: SyncGroup, min: 0, max: 5, serve: handle((*call).syncGroup), waits: true},
	{key: DescribeGroups, min: 0, max: 6, serve: handle((*call).describeGroups), waits: true},
	{key: ListGroups, min: 0, max: 5, serve: handle((*call).listGroups), waits: true},
	{key: ApiVersions, min: 0, max: 4, serve: handle((*call).apiVersions)},
	{key: CreateTopics, min: 2, max: 7, serve: handle((*call).createTopics), waits: true},
	{key: DeleteTopics, min: 1, max: 6, serve: handle((*call).deleteTopics), waits: true},
	{key: DeleteRecords, min: 0, max: 2, serve: handle((*call).deleteRecords), waits: true},
	{key: InitProducerID, min: 0, max: 5, serve: handle((*call).initProducerID)},
	{key: OffsetForLeaderEpoch, min: 2, max: 4, serve: handle((*call).offsetForLeaderEpoch)},
	{key: CreatePartitions, min: 0, max: 3, serve: handle((*call).createPartitions), waits: true},
	{key: DeleteGroups, min: 0, max: 2, serve: handle((*call).deleteGroups), waits: true},
	{key: OffsetDelete, min: 0, max: 0, serve: handle((*call).offsetDelete), waits: true},
	{key: DescribeTopicPartitions, min: 0, max: 0, serve: handle((*call).describeTopicPartitions)},
}
