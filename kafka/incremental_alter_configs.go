package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// unknownOperation is Kafka 4.3's error code for an unknown operation.
const unknownOperation = UnknownServerError

// incrementalAlterConfigs changes single keys of resources. Its operations are set and delete, and
// for a list append and subtract. Each resource is changed entirely or not at all. The change is
// in effect before the response. Key 44, versions 0 and 1.
func (c *call) incrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	eachOnce(c, req.Resources, toAlter, func(r *kmsg.IncrementalAlterConfigsRequestResource, err error) {
		if err == nil {
			err = c.alterResource(*r, req.ValidateOnly)
		}
		rr := kmsg.NewIncrementalAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = r.ResourceType, r.ResourceName
		rr.ErrorCode, rr.ErrorMessage = c.errorCode(err), errorMessage(err)
		resp.Resources = append(resp.Resources, rr)
	})
	return resp
}

func toAlter(r *kmsg.IncrementalAlterConfigsRequestResource) configResource {
	return configResource{int8(r.ResourceType), r.ResourceName}
}

func (c *call) alterResource(r kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) error {
	seen := map[string]bool{}
	var nulls []string
	changes := make([]replication.ConfigChange, len(r.Configs))
	for i, kv := range r.Configs {
		if seen[kv.Name] {
			return refuse(InvalidRequest, "Error due to duplicate config keys")
		}
		seen[kv.Name] = true
		changes[i] = replication.ConfigChange{Key: kv.Name, Op: replication.ConfigOp(kv.Op)}
		switch {
		case kv.Value != nil:
			changes[i].Value = *kv.Value
		case kv.Op != kmsg.IncrementalAlterConfigOpDelete:
			nulls = append(nulls, kv.Name)
		}
	}
	if len(nulls) > 0 {
		return refuse(InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	for _, kv := range r.Configs {
		if kv.Op >= 0 && replication.ConfigOp(kv.Op) <= replication.SubtractConfig {
			continue
		}
		switch int8(r.ResourceType) {
		case resourceTopic, resourceGroup, resourceClientMetrics:
			return noText(unknownOperation)
		case resourceBroker:
			if _, err := c.alterableBroker(r.ResourceName); err != nil {
				return err
			}
			return refuse(InvalidRequest, fmt.Sprintf("Unknown operations type %d", kv.Op))
		}
	}
	return c.alterConfig(int8(r.ResourceType), r.ResourceName, changes, validateOnly)
}

// configChanger makes changes, or only validates them.
type configChanger interface {
	AlterTopicConfig(ctx context.Context, name string, changes ...replication.ConfigChange) error
	ReplaceTopicConfig(ctx context.Context, name string, props map[string]string) error
	AlterBrokerConfig(ctx context.Context, broker int32, changes ...replication.ConfigChange) error
}

func (c *call) changer(validateOnly bool) configChanger {
	if validateOnly {
		return c.s.cluster.DryRun()
	}
	return c.s.cluster.Cluster
}

func (c *call) alterConfig(kind int8, name string, changes []replication.ConfigChange, validateOnly bool) error {
	if kind == resourceGroup {
		return c.alterGroup(name, group.ConfigAlteration{Changes: changes, DryRun: validateOnly})
	}
	if kind == resourceClientMetrics {
		return c.alterClientMetrics(name, changes, false, validateOnly)
	}
	if kind != resourceBroker {
		if err := c.alterable(kind, name, len(changes)); err != nil || kind != resourceTopic {
			return err
		}
		// As in Kafka, deleting an unknown key has no effect.
		known := slices.DeleteFunc(changes, func(ch replication.ConfigChange) bool {
			_, ok := topic.LookupKey(ch.Key)
			return !ok && ch.Op == replication.UnsetConfig
		})
		props := map[string]string{}
		for _, ch := range known {
			k, ok := topic.LookupKey(ch.Key)
			if list := ch.Op == replication.AppendConfig || ch.Op == replication.SubtractConfig; list && ok && k.Type != topic.TypeList {
				return refuse(InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", listOperations[ch.Op], ch.Key))
			} else if !list && ch.Op != replication.UnsetConfig {
				props[ch.Key] = ch.Value
			}
		}
		return c.topicConfigRefused(name, props, c.changer(validateOnly).AlterTopicConfig(c.ctx, name, known...))
	}
	broker, err := c.alterableBroker(name)
	if err != nil {
		return err
	}
	fixed := map[string]topic.ValueType{}
	for _, e := range c.staticEntries() {
		fixed[e.name] = e.kind
	}
	for _, ch := range changes {
		kind, isFixed := fixed[ch.Key]
		if k, ok := replication.LookupBrokerKey(ch.Key); ok {
			kind = k.Type
		}
		if (ch.Op == replication.AppendConfig || ch.Op == replication.SubtractConfig) && kind != topic.TypeList {
			return refuse(InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", listOperations[ch.Op], ch.Key))
		}
		if isFixed {
			return refuse(InvalidRequest, fmt.Sprintf("Cannot update these configs dynamically: [%s]", ch.Key))
		}
	}
	err = c.changer(validateOnly).AlterBrokerConfig(c.ctx, broker, changes...)
	if bad := (*topic.ConfigError)(nil); errors.As(err, &bad) {
		_, ofTopics := topic.LookupKey(bad.Key)
		if _, ok := replication.LookupBrokerKey(bad.Key); ok || ofTopics { // a bad value; an unknown key is INVALID_CONFIG
			return refuse(InvalidRequest, valueRefused(bad))
		}
	}
	return err
}

// listOperations are Kafka's names of operations on lists.
var listOperations = map[replication.ConfigOp]string{replication.AppendConfig: "APPEND", replication.SubtractConfig: "SUBTRACT"}

// topicConfigRefused returns Kafka's message for a rejected change of a topic's configuration. For
// a missing topic Kafka validates the values first (ControllerConfigurationValidator).
func (c *call) topicConfigRefused(name string, props map[string]string, err error) error {
	if !errors.Is(err, replication.ErrUnknownTopic) {
		return topicRefused(name, err)
	}
	bad := (*topic.ConfigError)(nil)
	if _, _, err := c.s.cluster.DryRun().CreateTopic(c.ctx, name, topic.Config{Properties: props}); errors.As(err, &bad) {
		return topicRefused(name, err)
	}
	return refuse(UnknownTopicOrPartition, fmt.Sprintf("The topic '%s' does not exist.", name))
}

// alterGroup changes the configuration of a group.
func (c *call) alterGroup(name string, a group.ConfigAlteration) error {
	if name == "" {
		return refuse(InvalidRequest, "Default group resources are not allowed.")
	}
	for _, ch := range a.Changes {
		if ch.Op == replication.AppendConfig || ch.Op == replication.SubtractConfig { // no key of groups is a list
			return refuse(InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", listOperations[ch.Op], ch.Key))
		}
	}
	a.Group = name
	err := c.s.cluster.AlterGroupConfig(c.ctx, a)
	if bad := (*topic.ConfigError)(nil); errors.As(err, &bad) {
		return refuse(InvalidConfig, c.groupValueRefused(name, bad))
	}
	return err
}

// groupValueRefused returns Kafka's message for an invalid value of a group's configuration. Kafka:
// GroupConfig.validate.
func (c *call) groupValueRefused(name string, bad *topic.ConfigError) string {
	entries := c.groupEntries(name)
	i := slices.IndexFunc(entries, func(e configEntry) bool { return e.name == bad.Key })
	if i < 0 {
		return "Unknown group config name: " + bad.Key
	}
	if bound, _, is := strings.Cut(bad.Reason, ", "); is && strings.HasPrefix(bound, "must be ") && strings.Contains(bound, " than ") {
		return bad.Key + " " + bound // without the value
	}
	if bad.Key == "share.auto.offset.reset" {
		return valueRefusedAs(bad, fmt.Sprintf("Invalid value `%s` for configuration %s. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.", bad.Value, bad.Key))
	}
	if entries[i].kind == topic.TypeInt && strings.Contains(bad.Reason, "number") {
		return valueRefusedAs(bad, "Not a number of type INT")
	}
	return valueRefused(bad)
}

// alterableBroker returns the broker with a name, which must be the broker of the call. An empty
// name means all brokers.
func (c *call) alterableBroker(name string) (int32, error) {
	if name == "" {
		return replication.AllBrokers, nil
	}
	return c.broker, c.own(name, "Node", "Unexpected broker id, expected %d, but received %s")
}

// alterable validates a resource other than a broker. Only topics have keys to alter: for the
// others it returns an error if n, the number of keys, is not 0.
func (c *call) alterable(kind int8, name string, n int) error {
	switch kind {
	case resourceTopic:
		if name == "" {
			return refuse(InvalidRequest, "Default topic resources are not allowed.")
		}
		return nameSays(topic.ValidateName(name), name)
	case resourceBrokerLogger:
		if err := c.own(name, "Node", "Unexpected node id. Expected %d, but received %s"); err != nil {
			return err
		}
	default:
		return refuse(InvalidRequest, fmt.Sprintf("Unknown resource type %d", kind))
	}
	if n > 0 {
		return refuse(InvalidConfig, "This resource has no configuration here that could be changed.")
	}
	return nil
}
