package kafka

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
)

// maxCreationErrors is the number of topics whose creation errors are in a response.
const maxCreationErrors = 3

// createInternal creates the missing internal topics of a streams group. The member needs Create
// of the cluster or of each topic. The result is the text for the response about topics that could
// not be created. Kafka: AutoTopicCreationManager.createStreamsInternalTopics.
func (c *call) createInternal(answer group.StreamsHeartbeatResponse) string {
	if !c.mayCluster(acl.Create) {
		var denied []string
		for _, t := range answer.Missing {
			if !c.allows(acl.Create, acl.Topic, t.Name) {
				denied = append(denied, t.Name)
			}
		}
		if len(denied) > 0 {
			return "; Unauthorized to CREATE on topics " + strings.Join(denied, ", ") + "."
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(answer.HeartbeatInterval.Milliseconds())
	for _, t := range answer.Missing {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Name, t.Partitions, -1
		if t.Replicas != 0 {
			rt.ReplicationFactor = t.Replicas
		}
		for _, kv := range t.Configs {
			rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: kv.Key, Value: &kv.Value})
		}
		req.Topics = append(req.Topics, rt)
	}
	var failed []string
	for _, t := range c.createTopics(req).(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 && Code(t.ErrorCode) != TopicAlreadyExists { // another member of the group was faster
			failed = append(failed, fmt.Sprintf("%s (%s)", t.Topic, orEmpty(t.ErrorMessage)))
		}
	}
	if len(failed) == 0 {
		return ""
	}
	slices.Sort(failed)
	if more := len(failed) - maxCreationErrors; more > 0 {
		return fmt.Sprintf("; Creation failed: %s and %d more.", strings.Join(failed[:maxCreationErrors], ", "), more)
	}
	return "; Creation failed: " + strings.Join(failed, ", ") + "."
}
