package kafka

import (
	"encoding/json"
	"fmt"
	"reflect"
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

// TestRefusalsAreInKafkasWords has answers of Kafka 4.3 to requests about the topic t of one partition.
func TestRefusalsAreInKafkasWords(t *testing.T) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
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
	create := func(name string, configs ...kmsg.CreateTopicsRequestTopicConfig) *kmsg.CreateTopicsRequest {
		r := kmsg.NewCreateTopicsRequestTopic()
		r.Topic, r.NumPartitions, r.ReplicationFactor, r.Configs = name, 1, 1, configs
		return &kmsg.CreateTopicsRequest{TimeoutMillis: 1000, Topics: []kmsg.CreateTopicsRequestTopic{r}}
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
		{"elect for an unknown topic", 2, elect(0, "none", 0), []string{`3 "No such topic as none"`}},
		{"elect for an unknown partition", 2, elect(0, "t", 4), []string{`3 "No such partition as t-4"`}},
		{"an unknown type of election", 2, elect(9, "t", 0), []string{`42 "Unknown election type 9"`}},
		{"producers of an unknown topic", 0, producers("none", 0), []string{`3 ` + notHosted}},
		{"producers of an unknown partition", 0, producers("t", 4), []string{`3 null`}},
		{"grow an unknown topic", 3, grow("none", 2), []string{`3 null`}},
		{"grow to the same", 3, grow("t", 1), []string{`37 "Topic already has 1 partition(s)."`}},
		{"grow to fewer", 3, grow("t", -1), []string{`37 "The topic t currently has 1 partition(s); -1 would not be an increase."`}},
		{"create what exists", 7, create("t"), []string{`36 "Topic 't' already exists."`}},
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

// TestProduceLooksAtThingsInKafkasOrder sends batches of which two things are wrong.
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
