package kafka

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

// codesAndTexts returns the codes and texts of an answer, in order, with those of its parts.
func codesAndTexts(v reflect.Value) (out []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return codesAndTexts(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, codesAndTexts(v.Index(i))...)
		}
	case reflect.Struct:
		if code, text := v.FieldByName("ErrorCode"), v.FieldByName("ErrorMessage"); code.IsValid() && text.IsValid() {
			b, _ := json.Marshal(text.Interface())
			out = append(out, fmt.Sprintf("%d %s", code.Int(), b))
		}
		for i := range v.NumField() {
			if k := v.Field(i).Kind(); k == reflect.Slice && v.Field(i).Type().Elem().Kind() == reflect.Struct {
				out = append(out, codesAndTexts(v.Field(i))...)
			}
		}
	}
	return out
}

// TestRefusalsAreInKafkasWords has the answers of Kafka 4.3 to requests about topic t, which has
// one partition.
func TestRefusalsAreInKafkasWords(t *testing.T) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "a.b", topic.Config{}))
	id, _ := s.cluster.TopicID("t")
	reassign := func(name string, p int32, replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
		return &kmsg.AlterPartitionAssignmentsRequest{TimeoutMillis: 1000, Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: p, Replicas: replicas}}}}}
	}
	elect := func(kind int8, name string, p int32) *kmsg.ElectLeadersRequest {
		return &kmsg.ElectLeadersRequest{TimeoutMillis: 1000, ElectionType: kind, Topics: []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{p}}}}
	}
	producers := func(name string, p int32) *kmsg.DescribeProducersRequest {
		return &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{p}}}}
	}
	grow := func(name string, n int32) *kmsg.CreatePartitionsRequest {
		return &kmsg.CreatePartitionsRequest{TimeoutMillis: 1000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: n}}}
	}
	growAt := func(name string, n int32, replicas ...int32) *kmsg.CreatePartitionsRequest {
		r := grow(name, n)
		r.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: replicas}}
		return r
	}
	createAt := func(partitions int32, factor int16, at ...kmsg.CreateTopicsRequestTopicReplicaAssignment) *kmsg.CreateTopicsRequest {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor, r.ReplicaAssignment = "new", partitions, factor, at
		return &kmsg.CreateTopicsRequest{TimeoutMillis: 1000, Topics: []kmsg.CreateTopicsRequestTopic{r}}
	}
	at := func(partition int32, replicas ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
		return kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: replicas}
	}
	create := func(name string, configs ...kmsg.CreateTopicsRequestTopicConfig) *kmsg.CreateTopicsRequest {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor, r.Configs = name, 1, 1, configs
		return &kmsg.CreateTopicsRequest{TimeoutMillis: 1000, Topics: []kmsg.CreateTopicsRequestTopic{r}}
	}
	replicated := func(name string, n int16) *kmsg.CreateTopicsRequest {
		r := create(name)
		r.Topics[0].ReplicationFactor = n
		return r
	}
	alter := func(kind int8, name, key string, op int8, value *string) *kmsg.IncrementalAlterConfigsRequest {
		return &kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Op: kmsg.IncrementalAlterConfigOp(op), Value: value}}}}}
	}
	replace := func(kind int8, name string, configs ...kmsg.AlterConfigsRequestResourceConfig) *kmsg.AlterConfigsRequest {
		return &kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceType(kind), ResourceName: name, Configs: configs}}}
	}
	nulls := []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms"}, {Name: "what"}}
	twice := replace(resourceTopic, "t")
	twice.Resources = append(twice.Resources, twice.Resources[0])
	value := kmsg.StringPtr("1")
	shareState := func(id [16]byte, p int32) *kmsg.ReadShareGroupStateSummaryRequest {
		return &kmsg.ReadShareGroupStateSummaryRequest{GroupID: "g", Topics: []kmsg.ReadShareGroupStateSummaryRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateSummaryRequestTopicPartition{{Partition: p}}}}}
	}
	require.Zero(t, ask[*kmsg.FindCoordinatorResponse](t, addr, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: "classic"}).ErrorCode)
	beat := &kmsg.ShareGroupHeartbeatRequest{GroupID: "shares", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", SubscribedTopicNames: []string{"t"}}
	require.Zero(t, ask[*kmsg.ShareGroupHeartbeatResponse](t, addr, 1, beat).ErrorCode)
	commit := kmsg.NewOffsetCommitRequestTopic()
	commit.Topic, commit.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{{}}
	committed := ask[*kmsg.OffsetCommitResponse](t, addr, 8, &kmsg.OffsetCommitRequest{Group: "classic", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{commit}})
	require.Zero(t, committed.Topics[0].Partitions[0].ErrorCode)
	features := func(name string, level int16, kind int8) *kmsg.UpdateFeaturesRequest {
		return &kmsg.UpdateFeaturesRequest{ValidateOnly: true, FeatureUpdates: []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: name, MaxVersionLevel: level, UpgradeType: kind}}}
	}
	const failed = `95 "The update failed for all features since the following feature had an error: `
	const malformed = `"This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."`
	const notHosted = `"This server does not host this topic-partition."`
	for _, tc := range []struct {
		name    string
		version int16
		req     kmsg.Request
		want    []string
	}{
		{"reassign an unknown topic", 1, reassign("none", 0, 1), []string{`0 null`, `3 "Unable to find a topic named none."`}},
		{"reassign an unknown partition", 1, reassign("t", -2, 1), []string{`0 null`, `3 "Unable to find partition t:-2."`}},
		{"cancel what is not under way", 1, reassign("t", 0), []string{`0 null`, `85 null`}},
		{"reassign nothing", 1, &kmsg.AlterPartitionAssignmentsRequest{TimeoutMillis: 1000}, []string{`0 ""`}},
		{"reassign to no replicas", 1, reassign("t", 0, []int32{}...), []string{`0 null`, `39 "The manual partition assignment includes an empty replica list."`}},
		{"reassign to a broker twice", 1, reassign("t", 0, 9, 1, 1), []string{`0 null`, `39 "The manual partition assignment includes the broker 1 more than once."`}},
		{"reassign to a broker that is none", 1, reassign("t", 0, 9, 7, 7), []string{`0 null`, `39 "The manual partition assignment includes broker 7, but no such broker is registered."`}},
		{"elect for an unknown topic", 2, elect(0, "none", 0), []string{`3 "No such topic as none"`}},
		{"elect for an unknown partition", 2, elect(0, "t", 4), []string{`3 "No such partition as t-4"`}},
		{"an unknown type of election", 2, elect(9, "t", 0), []string{`42 "Unknown election type 9"`}},
		{"producers of an unknown topic", 0, producers("none", 0), []string{`3 ` + notHosted}},
		{"producers of an unknown partition", 0, producers("t", 4), []string{`3 null`}},
		{"grow an unknown topic", 3, grow("none", 2), []string{`3 null`}},
		{"grow to the same", 3, grow("t", 1), []string{`37 "Topic already has 1 partition(s)."`}},
		{"grow to fewer", 3, grow("t", -1), []string{`37 "The topic t currently has 1 partition(s); -1 would not be an increase."`}},
		{"grow to fewer replicas", 3, growAt("t", 2), []string{`39 "The manual partition assignment includes an empty replica list."`}},
		{"grow to a broker that is none", 3, growAt("t", 2, 9, 1, 1), []string{`39 "The manual partition assignment includes the broker 1 more than once."`}},
		{"grow to where it is not said", 3, growAt("t", 4, 1), []string{`39 "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified."`}},
		{"create what exists", 7, create("t"), []string{`36 "Topic 't' already exists."`}},
		{"create with a name that cannot be", 7, create("no/name"), []string{`17 "Topic name is invalid: 'no/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"`}},
		{"create beside a name like it", 7, create("a_b"), []string{`17 "Topic 'a_b' collides with existing topic: a.b"`}},
		{"create with too many replicas", 7, replicated("new", 2), []string{`38 "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."`}},
		{"create with values that are null", 7, create("new", kmsg.CreateTopicsRequestTopicConfig{Name: "what"}, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"}), []string{`40 "Null value not supported for topic configs: what,retention.ms"`}},
		{"create with a value that is null beside one that cannot be", 7, create("new", kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"}, kmsg.CreateTopicsRequestTopicConfig{Name: "segment.bytes", Value: value}), []string{`40 "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"`}},
		{"create at brokers with a factor and a number", 7, createAt(1, 1, at(0, 1)), []string{`42 "A manual partition assignment was specified, but replication factor was not set to -1."`}},
		{"create at brokers with a number", 7, createAt(1, -1, at(0, 1)), []string{`42 "A manual partition assignment was specified, but numPartitions was not set to -1."`}},
		{"create at brokers a partition twice", 7, createAt(-1, -1, at(4, 1), at(4)), []string{`39 "Found multiple manual partition assignments for partition 4"`}},
		{"create at no broker what does not follow", 7, createAt(-1, -1, at(4)), []string{`39 "The manual partition assignment includes an empty replica list."`}},
		{"create at brokers what does not follow", 7, createAt(-1, -1, at(-1, 1)), []string{`39 "partitions should be a consecutive 0-based integer sequence"`}},
		{"create with an unknown key", 7, create("new", kmsg.CreateTopicsRequestTopicConfig{Name: "what", Value: value}), []string{`40 "Unknown topic config name: what"`}},
		{"delete an unknown topic", 5, &kmsg.DeleteTopicsRequest{TimeoutMillis: 1000, TopicNames: []string{"none"}}, []string{`3 ` + notHosted}},
		{"delete an unknown id", 6, &kmsg.DeleteTopicsRequest{TimeoutMillis: 1000, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: [16]byte{9}}}}, []string{`100 "This server does not host this topic ID."`}},
		{"alter an unknown topic", 1, alter(resourceTopic, "none", "retention.ms", 0, value), []string{`3 "The topic 'none' does not exist."`}},
		{"alter an unknown key of an unknown topic", 1, alter(resourceTopic, "none", "what", 0, value), []string{`40 "Unknown topic config name: what"`}},
		{"append to a number", 1, alter(resourceTopic, "t", "retention.ms", 2, value), []string{`40 "Can't APPEND to key retention.ms because its type is not LIST."`}},
		{"an unknown operation on a topic", 1, alter(resourceTopic, "t", "retention.ms", 9, value), []string{`-1 null`}},
		{"an unknown operation on a broker", 1, alter(resourceBroker, "1", "what", 9, value), []string{`42 "Unknown operations type 9"`}},
		{"an unknown operation on what is unknown", 1, alter(99, "t", "what", 9, value), []string{`42 "Unknown resource type 99"`}},
		{"alter a broker of no number", 1, alter(resourceBroker, "x", "what", 0, value), []string{`42 "Node id must be an integer, but it is: x"`}},
		{"replace null values", 2, replace(resourceTopic, "t", nulls...), []string{`42 "Null value not supported for : retention.ms, what"`}},
		{"replace the configuration of a logger", 2, replace(resourceBrokerLogger, "1"), []string{`42 "Unknown resource type 8"`}},
		{"replace twice", 2, twice, []string{`42 "Each resource must appear at most once."`, `42 "Each resource must appear at most once."`}},
		{"configuration of an unknown resource", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 99}}}, []string{`42 ` + malformed}},
		{"configuration of a topic", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "t", ConfigNames: []string{"x"}}}}, []string{`0 ""`}},
		{"users", 0, &kmsg.DescribeUserSCRAMCredentialsRequest{}, []string{`0 ""`}},
		{"an unknown coordinator", 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: "g", CoordinatorType: 9}, []string{`42 ` + malformed}},
		{"an unknown type of endpoint", 2, &kmsg.DescribeClusterRequest{EndpointType: 9}, []string{`115 "Unsupported endpoint type 9"`}},
		{"an unknown type of election of nothing", 2, &kmsg.ElectLeadersRequest{ElectionType: 9, Topics: []kmsg.ElectLeadersRequestTopic{}}, nil},
		{"a value that is no number", 7, create("new", kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: kmsg.StringPtr("x")}), []string{`40 "Invalid value x for configuration retention.ms: Not a number of type LONG"`}},
		{"a value that is no truth", 1, alter(resourceTopic, "t", "preallocate", 0, value), []string{`40 "Invalid value 1 for configuration preallocate: Expected value to be either true or false"`}},
		{"a ratio that is too large", 1, alter(resourceTopic, "t", "min.cleanable.dirty.ratio", 0, kmsg.StringPtr("1.1")), []string{`40 "Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"`}},
		{"a ratio that is too small", 1, alter(resourceTopic, "t", "min.cleanable.dirty.ratio", 0, kmsg.StringPtr("-0.1")), []string{`40 "Invalid value -0.1 for configuration min.cleanable.dirty.ratio: Value must be at least 0"`}},
		{"a value that is too small", 1, alter(resourceTopic, "t", "segment.bytes", 0, value), []string{`40 "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"`}},
		{"a value that is none of some", 1, alter(resourceTopic, "none", "message.timestamp.type", 0, value), []string{`40 "Invalid value 1 for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"`}},
		{"a value of a list", 1, alter(resourceTopic, "t", "cleanup.policy", 0, value), []string{`40 "Invalid value 1 for configuration cleanup.policy: String must be one of: compact, delete"`}},
		{"an empty name", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 2}}}, []string{`17 "Topic name is invalid: the empty string is not allowed"`}},
		{"a name of dots", 0, producers("..", 0), []string{`17 "Topic name is invalid: '..' is not allowed"`}},
		{"a name of other letters", 1, alter(resourceTopic, "a/b", "what", 1, nil), []string{`17 "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"`}},
		{"a long name", 0, producers(strings.Repeat("x", 250), 0), []string{`17 "Topic name is invalid: the length of '` + strings.Repeat("x", 250) + `' is longer than the max allowed length 249"`}},
		{"another broker's configuration", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 4, ResourceName: "7"}}}, []string{`42 "Unexpected broker id, expected 1 or empty string, but received 7"`}},
		{"an unknown partition of a quorum", 2, &kmsg.DescribeQuorumRequest{Topics: []kmsg.DescribeQuorumRequestTopic{{Topic: "t", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}}, []string{`0 ""`, `3 ` + notHosted}},
		{"a heartbeat to no group", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "none", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", MemberEpoch: 1, RebalanceTimeoutMillis: -1}, []string{`69 "Consumer group none not found."`}},
		{"a heartbeat to no share group", 1, &kmsg.ShareGroupHeartbeatRequest{GroupID: "none", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", MemberEpoch: 1}, []string{`69 "Share group none not found."`}},
		{"leaving no group", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "none", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", MemberEpoch: -1}, []string{`69 "Group none not found."`}},
		{"a heartbeat to a group of another kind", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "shares", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", MemberEpoch: 1}, []string{`69 "Group shares is not a consumer group."`}},
		{"a heartbeat of no member", 1, &kmsg.ShareGroupHeartbeatRequest{GroupID: "shares", MemberID: "nobody", MemberEpoch: 1}, []string{`25 "Member nobody is not a member of group shares."`}},
		{"a heartbeat of no member of no group", 1, &kmsg.ConsumerGroupHeartbeatRequest{}, []string{`42 "MemberId can't be empty."`}},
		{"an impossible epoch", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "g", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", MemberEpoch: -3}, []string{`42 "MemberEpoch is invalid."`}},
		{"a rebalance timeout that is none", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "g", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", RebalanceTimeoutMillis: -1}, []string{`42 "RebalanceTimeoutMs must be provided in first request."`}},
		{"a rebalance timeout that is over", 1, &kmsg.ConsumerGroupHeartbeatRequest{Group: "g", MemberID: "AAAAAAAAAAAAAAAAAAAAAA", RebalanceTimeoutMillis: -2}, []string{`42 "TopicPartitions must be empty when (re-)joining."`}},
		{"a share-partition of no topic", 6, &kmsg.FindCoordinatorRequest{CoordinatorKeys: []string{"g:AAAAAAAAAAAAAAAAAAAAAA:0"}, CoordinatorType: 2}, []string{`0 null`, `42 ` + malformed}},
		{"a logger of another broker", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 8, ResourceName: "7"}}}, []string{`42 "Unexpected broker id, expected 1 but received 7"`}},
		{"alter another broker", 1, alter(resourceBroker, "7", "what", 0, value), []string{`42 "Unexpected broker id, expected 1, but received 7"`}},
		{"alter the logger of another broker", 1, alter(resourceBrokerLogger, "7", "what", 0, value), []string{`42 "Unexpected node id. Expected 1, but received 7"`}},
		{"client metrics of no name", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 16}}}, []string{`42 "Client metrics subscription name must not be empty"`}},
		{"forget no topic of no share group", 0, &kmsg.DeleteShareGroupOffsetsRequest{GroupID: "none"}, []string{`69 "Group none not found."`}},
		{"forget a topic of no share group", 0, &kmsg.DeleteShareGroupOffsetsRequest{GroupID: "none", Topics: []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: "t"}}}, []string{`69 "Group none not found."`}},
		{"no classic group", 6, &kmsg.DescribeGroupsRequest{Groups: []string{"shares"}}, []string{`69 "Group shares is not a classic group."`}},
		{"no consumer group", 1, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{"shares", "none"}}, []string{`69 "Group shares is not a consumer group."`, `69 "Group none not found."`}},
		{"no share group", 1, &kmsg.ShareGroupDescribeRequest{GroupIDs: []string{"classic"}}, []string{`69 "Group classic is not a share group."`}},
		{"append to a group's number", 1, alter(resourceGroup, "g", "consumer.session.timeout.ms", 2, value), []string{`40 "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST."`}},
		{"an unknown key of a group", 1, alter(resourceGroup, "g", "retention.ms", 0, value), []string{`40 "Unknown group config name: retention.ms"`}},
		{"a group's number that is none", 1, alter(resourceGroup, "g", "share.session.timeout.ms", 0, kmsg.StringPtr("x")), []string{`40 "Invalid value x for configuration share.session.timeout.ms: Not a number of type INT"`}},
		{"a group's number that makes no sense", 1, alter(resourceGroup, "g", "share.delivery.count.limit", 0, kmsg.StringPtr("1")), []string{`40 "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2"`}},
		{"a group's number below the broker's", 1, alter(resourceGroup, "g", "consumer.session.timeout.ms", 0, kmsg.StringPtr("5")), []string{`40 "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"`}},
		{"a group's number above the broker's", 1, alter(resourceGroup, "g", "share.partition.max.record.locks", 0, kmsg.StringPtr("4001")), []string{`40 "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks"`}},
		{"a group's truth that is none", 1, alter(resourceGroup, "g", "share.renew.acknowledge.enable", 0, kmsg.StringPtr("x")), []string{`40 "Invalid value x for configuration share.renew.acknowledge.enable: Expected value to be either true or false"`}},
		{"a group's isolation", 1, alter(resourceGroup, "g", "share.isolation.level", 0, kmsg.StringPtr("x")), []string{`40 "Invalid value x for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"`}},
		{"a group's beginning", 1, alter(resourceGroup, "g", "share.auto.offset.reset", 0, kmsg.StringPtr("x")), []string{"40 \"Invalid value x for configuration share.auto.offset.reset: Invalid value `x` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:\\u003cPnDTnHnMn.nS\\u003e'.\""}},
		{"an unknown feature", 2, features("what", 2, 1), []string{failed + `Invalid update version 2 for feature what. Local controller 1 does not support this feature."`}},
		{"an unknown feature off", 2, features("what", 0, 1), []string{failed + `Invalid update version 0 for feature what. Feature what not found."`}},
		{"an unknown level of a feature", 2, features("transaction.version", 9, 1), []string{failed + `Invalid update version 9 for feature transaction.version. Local controller 1 only supports versions 0-2"`}},
		{"an unknown update of a feature", 2, features("what", 2, 9), []string{failed + `Invalid update version 2 for feature what. The controller does not support the given upgrade type."`}},
		{"a topic beside an unknown resource", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "t"}, {ResourceType: 99}}}, []string{`42 ` + malformed, `42 ` + malformed}},
		{"a share group with members", 0, &kmsg.AlterShareGroupOffsetsRequest{GroupID: "shares", Topics: []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{}}}}}, []string{`68 "The group is not empty."`}},
		{"create a name of dots", 7, create(".."), []string{`17 "Topic name is invalid: '..' is not allowed"`}},
		{"begin anew of no name", 0, &kmsg.AlterShareGroupOffsetsRequest{}, []string{`24 "The group id is invalid."`}},
		{"begin anew of another kind", 0, &kmsg.AlterShareGroupOffsetsRequest{GroupID: "classic"}, []string{`69 "Group classic is not a share group."`}},
		{"a logger of no broker", 4, &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: 8}}}, []string{`42 "Broker id must not be empty"`}},
		{"a member without a topic", 1, &kmsg.ShareGroupHeartbeatRequest{GroupID: "g", MemberID: "AAAAAAAAAAAAAAAAAAAAAA"}, []string{`42 "SubscribedTopicNames must be set in first request."`}},
		{"share state of a negative partition", 1, shareState(id, -1), []string{`42 "The partition id cannot be a negative number."`}},
		{"share state of an unknown partition", 1, shareState(id, 4), []string{`3 ` + notHosted}},
		{"share state of no partition", 1, &kmsg.ReadShareGroupStateSummaryRequest{GroupID: "g", Topics: []kmsg.ReadShareGroupStateSummaryRequestTopic{{TopicID: id}}}, nil},
		{"share state that is not there", 0, &kmsg.ReadShareGroupStateRequest{GroupID: "g", Topics: []kmsg.ReadShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{}}}}},
			[]string{`42 "Read operation on uninitialized share partition not allowed."`}},
		{"share state that is written too early", 1, &kmsg.WriteShareGroupStateRequest{GroupID: "g", Topics: []kmsg.WriteShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.WriteShareGroupStateRequestTopicPartition{
			{StateBatches: []kmsg.WriteShareGroupStateRequestTopicPartitionStateBatch{{FirstOffset: 3, LastOffset: 1}}}}}}},
			[]string{`42 "Write operation on uninitialized share partition not allowed."`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, codesAndTexts(reflect.ValueOf(ask[kmsg.Response](t, addr, tc.version, tc.req))))
		})
	}
}

// TestProduceLooksAtThingsInKafkasOrder sends batches with two defects each.
func TestProduceLooksAtThingsInKafkasOrder(t *testing.T) {
	s, c := produceServer(t)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "__share_group_state", topic.Config{Partitions: 1}))
	good := batch("k", "value")
	for _, tc := range []struct {
		name      string
		topic     string
		partition int32
		acks      int16
		records   []byte
		want      Code
	}{
		{"an unknown partition, unknown acks", "t", 9, 7, good, UnknownTopicOrPartition},
		{"an unknown partition, no records", "t", 9, -1, nil, UnknownTopicOrPartition},
		{"no records, unknown acks", "t", 0, 7, nil, InvalidRecord},
		{"unknown acks", "t", 0, 7, good, InvalidRequiredAcks},
		{"an internal topic, unknown acks", "__share_group_state", 0, 7, good, InvalidRequiredAcks},
		{"an internal topic", "__share_group_state", 0, -1, good, InvalidTopicException},
		{"an unknown partition of an internal topic", "__share_group_state", 9, -1, good, UnknownTopicOrPartition},
		{"zeroes, an unknown partition", "t", 9, -1, make([]byte, 80), CorruptMessage},
		{"zeroes", "t", 0, -1, make([]byte, 80), CorruptMessage},
		{"an unknown format, an unknown topic", "none", 0, 7, changed(func(p []byte) []byte { p[16] = 3; return p }), CorruptMessage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &client{t: t, nc: c.nc, next: c.next + 1000}
			r := produceOne(9, tc.topic, tc.records)
			r.Acks, r.Topics[0].Partitions[0].Partition = tc.acks, tc.partition
			require.Equal(t, tc.want, Code(c.ask(r).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
		})
	}
}

// TestProduceLooksForATransactionUpToItsFirstBatch sends invalid bytes before and after a batch of
// a transaction. Before it they fail the whole request, after it only their own partition.
func TestProduceLooksForATransactionUpToItsFirstBatch(t *testing.T) {
	_, c := produceServer(t)
	of := changed(func(p []byte) []byte { p[22] |= 0x10; return p })
	for _, tc := range []struct {
		records [][]byte
		want    Code
	}{
		{[][]byte{of, make([]byte, 80)}, UnknownTopicOrPartition},
		{[][]byte{make([]byte, 80), of}, CorruptMessage},
	} {
		r := produceOne(9, "t", tc.records[0])
		r.TransactionID = kmsg.StringPtr("x")
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
		for i := range tc.records {
			r.Topics[0].Partitions[i].Partition, r.Topics[0].Partitions[i].Records = int32(7+i), tc.records[i]
		}
		for _, p := range c.ask(r).(*kmsg.ProduceResponse).Topics[0].Partitions {
			require.Equal(t, tc.want, Code(p.ErrorCode))
		}
	}
}

// TestTopicsWithoutPartitionsAreNotAnswered sends topics without partitions.
func TestTopicsWithoutPartitionsAreNotAnswered(t *testing.T) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
	require.Empty(t, ask[*kmsg.ProduceResponse](t, addr, 9, &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 1000, Topics: []kmsg.ProduceRequestTopic{{Topic: "t"}}}).Topics)
	require.Empty(t, ask[*kmsg.ListOffsetsResponse](t, addr, 8, &kmsg.ListOffsetsRequest{ReplicaID: -1, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "t"}}}).Topics)
	require.Empty(t, ask[*kmsg.DeleteRecordsResponse](t, addr, 2, &kmsg.DeleteRecordsRequest{TimeoutMillis: 1000, Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "t"}}}).Topics)
	require.Empty(t, ask[*kmsg.OffsetCommitResponse](t, addr, 8, &kmsg.OffsetCommitRequest{Group: "g", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "t"}}}).Topics)
	require.Empty(t, ask[*kmsg.WriteTxnMarkersResponse](t, addr, 1, &kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{{}}}).Markers)
}

func TestMarkersOfImpossibleProducersAreRefused(t *testing.T) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
	for _, m := range []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: -1}, {ProducerID: 5, ProducerEpoch: -1}} {
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{0}}}
		r := ask[*kmsg.WriteTxnMarkersResponse](t, addr, 1, &kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{m}})
		require.Equal(t, UnknownServerError, Code(r.Markers[0].Topics[0].Partitions[0].ErrorCode))
	}
	end := kmsg.NewListOffsetsRequestTopicPartition()
	end.Timestamp = -1
	offsets := ask[*kmsg.ListOffsetsResponse](t, addr, 8, &kmsg.ListOffsetsRequest{ReplicaID: -1, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{end}}}})
	require.Zero(t, offsets.Topics[0].Partitions[0].Offset, "nothing is written")
}

// TestAbortedTransactionsAreNullWhereNobodyAsks fetches from partition 0, which is empty, and from
// a partition that does not exist.
func TestAbortedTransactionsAreNullWhereNobodyAsks(t *testing.T) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
	for partition, want := range map[int32]bool{0: false, 9: true} {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = partition, 1000
		r := kmsg.NewPtrFetchRequest()
		r.MaxBytes, r.SessionEpoch, r.Topics = 1000, -1, []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		got := ask[*kmsg.FetchResponse](t, addr, 11, r).Topics[0].Partitions[0]
		require.Equal(t, want, got.AbortedTransactions != nil, "partition %d", partition)
	}
}

// TestMembersAreKnownBeforeTheirProtocolIs has the answers of Kafka 4.3 to SyncGroup and
// LeaveGroup.
func TestMembersAreKnownBeforeTheirProtocolIs(t *testing.T) {
	_, addr := serve(t, Config{})
	c := dial(t, addr)
	c.ask(&kmsg.FindCoordinatorRequest{Version: 3, CoordinatorKey: "g"})
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 9, "g", 10_000, 10_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	join.MemberID = c.ask(join).(*kmsg.JoinGroupResponse).MemberID
	joined := c.ask(join).(*kmsg.JoinGroupResponse)
	require.Zero(t, joined.ErrorCode)
	sync := func(member string, kind, name *string) Code {
		return Code(c.ask(&kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: member, Generation: joined.Generation, ProtocolType: kind, Protocol: name}).(*kmsg.SyncGroupResponse).ErrorCode)
	}
	consumer, ranged, empty := kmsg.StringPtr("consumer"), kmsg.StringPtr("range"), kmsg.StringPtr("")
	require.Equal(t, InconsistentGroupProtocol, sync("nobody", consumer, nil), "from version 5 on both are named")
	require.Equal(t, InconsistentGroupProtocol, sync("nobody", nil, ranged))
	require.Equal(t, UnknownMemberID, sync("nobody", empty, empty))
	require.Equal(t, InconsistentGroupProtocol, sync(join.MemberID, empty, ranged))
	require.Equal(t, InconsistentGroupProtocol, sync(join.MemberID, consumer, empty))
	require.Zero(t, sync(join.MemberID, consumer, ranged))

	static := &kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: join.MemberID, InstanceID: empty, Generation: joined.Generation, ProtocolType: consumer, Protocol: ranged}
	require.Equal(t, UnknownMemberID, Code(c.ask(static).(*kmsg.SyncGroupResponse).ErrorCode), "no instance has an empty id")
	beat := &kmsg.HeartbeatRequest{Version: 4, Group: "g", MemberID: join.MemberID, Generation: joined.Generation}
	require.Zero(t, c.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode)
	beat.InstanceID = empty
	require.Equal(t, UnknownMemberID, Code(c.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode), "no instance has an empty id")

	leave := func(members ...kmsg.LeaveGroupRequestMember) (codes []Code) {
		for _, m := range c.ask(&kmsg.LeaveGroupRequest{Version: 5, Group: "g", Members: members}).(*kmsg.LeaveGroupResponse).Members {
			codes = append(codes, Code(m.ErrorCode))
		}
		return codes
	}
	one := kmsg.LeaveGroupRequestMember{MemberID: join.MemberID, InstanceID: empty}
	require.Equal(t, []Code{UnknownMemberID}, leave(one), "no instance has an empty id")
	require.Equal(t, []Code{0, UnknownMemberID}, leave(kmsg.LeaveGroupRequestMember{MemberID: join.MemberID}, one))
}
