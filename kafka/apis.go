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
	{key: SaslHandshake, min: 0, max: 1, serve: handle((*call).saslHandshake), waits: true},
	{key: ApiVersions, min: 0, max: 4, serve: handle((*call).apiVersions)},
	{key: CreateTopics, min: 2, max: 7, serve: handle((*call).createTopics), waits: true},
	{key: DeleteTopics, min: 1, max: 6, serve: handle((*call).deleteTopics), waits: true},
	{key: DeleteRecords, min: 0, max: 2, serve: handle((*call).deleteRecords), waits: true},
	{key: InitProducerID, min: 0, max: 5, try: tryInitProducerID, serve: handle((*call).initProducerID), waits: true},
	{key: OffsetForLeaderEpoch, min: 2, max: 4, serve: handle((*call).offsetForLeaderEpoch)},
	{key: AddPartitionsToTxn, min: 0, max: 5, serve: handle((*call).addPartitionsToTxn), waits: true},
	{key: AddOffsetsToTxn, min: 0, max: 4, serve: handle((*call).addOffsetsToTxn), waits: true},
	{key: EndTxn, min: 0, max: 5, serve: handle((*call).endTxn), waits: true},
	{key: WriteTxnMarkers, min: 1, max: 2, serve: handle((*call).writeTxnMarkers), waits: true},
	{key: TxnOffsetCommit, min: 0, max: 5, serve: handle((*call).txnOffsetCommit), waits: true},
	{key: DescribeACLs, min: 1, max: 3, serve: handle((*call).describeACLs)},
	{key: CreateACLs, min: 1, max: 3, serve: handle((*call).createACLs), waits: true},
	{key: DeleteACLs, min: 1, max: 3, serve: handle((*call).deleteACLs), waits: true},
	{key: DescribeConfigs, min: 1, max: 4, serve: handle((*call).describeConfigs)},
	{key: AlterConfigs, min: 0, max: 2, serve: handle((*call).alterConfigs), waits: true},
	{key: DescribeLogDirs, min: 1, max: 5, serve: handle((*call).describeLogDirs)},
	{key: SaslAuthenticate, min: 0, max: 2, serve: handle((*call).saslAuthenticate), waits: true},
	{key: CreatePartitions, min: 0, max: 3, serve: handle((*call).createPartitions), waits: true},
	{key: CreateDelegationToken, min: 1, max: 3, serve: handle((*call).createDelegationToken), waits: true},
	{key: RenewDelegationToken, min: 1, max: 2, serve: handle((*call).renewDelegationToken), waits: true},
	{key: ExpireDelegationToken, min: 1, max: 2, serve: handle((*call).expireDelegationToken), waits: true},
	{key: DescribeDelegationToken, min: 1, max: 3, serve: handle((*call).describeDelegationToken)},
	{key: DeleteGroups, min: 0, max: 2, serve: handle((*call).deleteGroups), waits: true},
	{key: ElectLeaders, min: 0, max: 2, serve: handle((*call).electLeaders)},
	{key: IncrementalAlterConfigs, min: 0, max: 1, serve: handle((*call).incrementalAlterConfigs), waits: true},
	{key: AlterPartitionReassignments, min: 0, max: 1, serve: handle((*call).alterPartitionReassignments)},
	{key: ListPartitionReassignments, min: 0, max: 0, serve: handle((*call).listPartitionReassignments)},
	{key: OffsetDelete, min: 0, max: 0, serve: handle((*call).offsetDelete), waits: true},
	{key: DescribeClientQuotas, min: 0, max: 1, serve: handle((*call).describeClientQuotas)},
	{key: AlterClientQuotas, min: 0, max: 1, serve: handle((*call).alterClientQuotas), waits: true},
	{key: DescribeUserScramCredentials, min: 0, max: 0, serve: handle((*call).describeUserScramCredentials)},
	{key: AlterUserScramCredentials, min: 0, max: 0, serve: handle((*call).alterUserScramCredentials), waits: true},
	{key: DescribeQuorum, min: 0, max: 2, serve: handle((*call).describeQuorum)},
	{key: UpdateFeatures, min: 0, max: 2, serve: handle((*call).updateFeatures)},
	{key: DescribeCluster, min: 0, max: 2, serve: handle((*call).describeCluster)},
	{key: DescribeProducers, min: 0, max: 0, serve: handle((*call).describeProducers)},
	{key: DescribeTransactions, min: 0, max: 0, serve: handle((*call).describeTransactions), waits: true},
	{key: ListTransactions, min: 0, max: 2, serve: handle((*call).listTransactions), waits: true},
	{key: ConsumerGroupHeartbeat, min: 0, max: 1, serve: handle((*call).consumerGroupHeartbeat), waits: true},
	{key: ConsumerGroupDescribe, min: 0, max: 1, serve: handle((*call).consumerGroupDescribe), waits: true},
	{key: GetTelemetrySubscriptions, min: 0, max: 0, serve: handle((*call).getTelemetrySubscriptions)},
	{key: PushTelemetry, min: 0, max: 0, serve: handle((*call).pushTelemetry)},
	{key: ListConfigResources, min: 0, max: 1, serve: handle((*call).listConfigResources)},
	{key: DescribeTopicPartitions, min: 0, max: 0, serve: handle((*call).describeTopicPartitions)},
	{key: ShareGroupHeartbeat, min: 1, max: 1, serve: handle((*call).shareGroupHeartbeat), waits: true},
	{key: ShareGroupDescribe, min: 1, max: 1, serve: handle((*call).shareGroupDescribe), waits: true},
	{key: ShareFetch, min: 1, max: 2, serve: handle((*call).shareFetch), waits: true},
	{key: ShareAcknowledge, min: 1, max: 2, serve: handle((*call).shareAcknowledge), waits: true},
	{key: InitializeShareGroupState, min: 0, max: 0, serve: handle((*call).initializeShareGroupState), waits: true},
	{key: ReadShareGroupState, min: 0, max: 0, serve: handle((*call).readShareGroupState), waits: true},
	{key: WriteShareGroupState, min: 0, max: 1, serve: handle((*call).writeShareGroupState), waits: true},
	{key: DeleteShareGroupState, min: 0, max: 0, serve: handle((*call).deleteShareGroupState), waits: true},
	{key: ReadShareGroupStateSummary, min: 0, max: 1, serve: handle((*call).readShareGroupStateSummary), waits: true},
	{key: DescribeShareGroupOffsets, min: 0, max: 1, serve: handle((*call).describeShareGroupOffsets), waits: true},
	{key: AlterShareGroupOffsets, min: 0, max: 0, serve: handle((*call).alterShareGroupOffsets), waits: true},
	{key: DeleteShareGroupOffsets, min: 0, max: 0, serve: handle((*call).deleteShareGroupOffsets), waits: true},
}

// ServedVersions returns the versions of an API that a Server serves unless Config.VersionCaps
// lowers them; false: it does not serve it. GetTelemetrySubscriptions and PushTelemetry are served
// only with a Config.Telemetry.
func ServedVersions(k Key) (lowest, highest int16, served bool) {
	for i := range apis {
		if apis[i].key == k {
			return apis[i].min, apis[i].max, true
		}
	}
	return 0, 0, false
}
