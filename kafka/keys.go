package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// A Key is the number of an API of the protocol. Every request begins with one.
type Key int16

// Keys of the APIs that a Server serves.
const (
	Produce                      Key = 0
	Fetch                        Key = 1
	ListOffsets                  Key = 2
	Metadata                     Key = 3
	OffsetCommit                 Key = 8
	OffsetFetch                  Key = 9
	FindCoordinator              Key = 10
	JoinGroup                    Key = 11
	Heartbeat                    Key = 12
	LeaveGroup                   Key = 13
	SyncGroup                    Key = 14
	DescribeGroups               Key = 15
	ListGroups                   Key = 16
	SaslHandshake                Key = 17
	ApiVersions                  Key = 18
	CreateTopics                 Key = 19
	DeleteTopics                 Key = 20
	DeleteRecords                Key = 21
	InitProducerID               Key = 22
	OffsetForLeaderEpoch         Key = 23
	AddPartitionsToTxn           Key = 24
	AddOffsetsToTxn              Key = 25
	EndTxn                       Key = 26
	WriteTxnMarkers              Key = 27
	TxnOffsetCommit              Key = 28
	DescribeACLs                 Key = 29
	CreateACLs                   Key = 30
	DeleteACLs                   Key = 31
	DescribeConfigs              Key = 32
	AlterConfigs                 Key = 33
	DescribeLogDirs              Key = 35
	SaslAuthenticate             Key = 36
	CreatePartitions             Key = 37
	CreateDelegationToken        Key = 38
	RenewDelegationToken         Key = 39
	ExpireDelegationToken        Key = 40
	DescribeDelegationToken      Key = 41
	DeleteGroups                 Key = 42
	ElectLeaders                 Key = 43
	IncrementalAlterConfigs      Key = 44
	AlterPartitionReassignments  Key = 45
	ListPartitionReassignments   Key = 46
	OffsetDelete                 Key = 47
	DescribeClientQuotas         Key = 48
	AlterClientQuotas            Key = 49
	DescribeUserScramCredentials Key = 50
	AlterUserScramCredentials    Key = 51
	DescribeQuorum               Key = 55
	UpdateFeatures               Key = 57
	DescribeCluster              Key = 60
	DescribeProducers            Key = 61
	DescribeTransactions         Key = 65
	ListTransactions             Key = 66
	ConsumerGroupHeartbeat       Key = 68
	ConsumerGroupDescribe        Key = 69
	GetTelemetrySubscriptions    Key = 71
	PushTelemetry                Key = 72
	ListConfigResources          Key = 74
	DescribeTopicPartitions      Key = 75
	ShareGroupHeartbeat          Key = 76
	ShareGroupDescribe           Key = 77
	ShareFetch                   Key = 78
	ShareAcknowledge             Key = 79
	InitializeShareGroupState    Key = 83
	ReadShareGroupState          Key = 84
	WriteShareGroupState         Key = 85
	DeleteShareGroupState        Key = 86
	ReadShareGroupStateSummary   Key = 87
	StreamsGroupHeartbeat        Key = 88
	StreamsGroupDescribe         Key = 89
	DescribeShareGroupOffsets    Key = 90
	AlterShareGroupOffsets       Key = 91
	DeleteShareGroupOffsets      Key = 92
)

// String returns Kafka's name of the API, as OffsetCommit.
func (k Key) String() string { return kmsg.NameForKey(int16(k)) }
