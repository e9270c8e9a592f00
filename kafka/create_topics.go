package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// maxCreatedPartitions bounds the partitions of one request. Kafka: MAX_PARTITIONS_PER_BATCH.
const maxCreatedPartitions = 10_000

// createTopics creates topics independently of each other; with validate_only it only checks them.
// When the response is sent, a created topic is on stable storage and known to every broker.
// Version 5 adds the configuration to the response (KIP-525), 7 the id. Config.LenientReplication
// is not Kafka's. Key 19, versions 2 to 7.
//
// From version 6 on, changes beyond the client's quota are rejected (KIP-599).
//
// A topic gets one error. The checks are in Kafka's order. First come the metadata topic and
// duplicate names (ControllerApis), then the size of the request. For each topic its name follows,
// then its configuration, then its partitions and replicas (ReplicationControlManager).
func (c *call) createTopics(req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := c.timeout(req.TimeoutMillis)
	defer cancel()
	times := map[string]int{}
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	var partitions int64
	for _, t := range req.Topics {
		if times[t.Topic] == 1 && t.Topic != topic.MetadataTopic {
			partitions += max(int64(t.NumPartitions), int64(len(t.ReplicaAssignment)), 1)
		}
	}
	var wanted []replication.TopicSpec
	var places []int // indexes of wanted in resp.Topics
	var alike configured
	for _, t := range each(c, req.Topics) {
		switch n := times[t.Topic]; {
		case n > 1:
			times[t.Topic] = -1
			resp.Topics = append(resp.Topics, c.notCreated(t.Topic, refuse(InvalidRequest, "Duplicate topic name.")))
		case n < 0:
		case t.Topic == topic.MetadataTopic:
			resp.Topics = append(resp.Topics, c.notCreated(t.Topic, refuse(InvalidRequest, "Creation of internal topic "+t.Topic+" is prohibited.")))
		case partitions > maxCreatedPartitions:
			resp.Topics = append(resp.Topics, c.notCreated(t.Topic, refuse(PolicyViolation, "Excessively large number of partitions per request.")))
		default:
			rt, spec, err := c.creatable(ctx, t, &alike)
			if err == nil {
				wanted, places = append(wanted, spec), append(places, len(resp.Topics))
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	if req.ValidateOnly || len(wanted) == 0 {
		return resp
	}
	for i, err := range c.s.cluster.CreateTopics(ctx, wanted) { // one write of metadata for all
		rt := &resp.Topics[places[i]]
		if err != nil {
			*rt = c.notCreated(wanted[i].Name, err)
			continue
		}
		rt.TopicID, _ = c.s.cluster.TopicID(wanted[i].Name)
	}
	return resp
}

func (c *call) notCreated(name string, err error) kmsg.CreateTopicsResponseTopic {
	rt := kmsg.NewCreateTopicsResponseTopic()
	if err = topicRefused(name, err); errors.Is(err, topic.ErrInvalidName) {
		err = c.collides(name)
	}
	rt.Topic, rt.ErrorCode, rt.ErrorMessage = name, c.errorCode(err), errorMessage(err)
	rt.NumPartitions, rt.ReplicationFactor, rt.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
	return rt
}

// valueRefused returns Kafka's message for a rejected value of a configuration. Kafka: ConfigDef.
func valueRefused(bad *topic.ConfigError) string {
	k, _ := topic.LookupKey(bad.Key)
	reason, numbers := bad.Reason, map[topic.ValueType]string{topic.TypeInt: "INT", topic.TypeLong: "LONG", topic.TypeDouble: "DOUBLE"}
	if least, ok := strings.CutPrefix(reason, "must be at least "); ok {
		reason = "Value must be at least " + least
	} else if most, ok := strings.CutPrefix(reason, "must be no more than "); ok {
		reason = "Value must be no more than " + most
	} else if names, ok := strings.CutPrefix(reason, "must be one of "); ok {
		reason = "String must be one of: " + names
	} else if names, ok := strings.CutPrefix(reason, "must be a list of "); ok && k.Type == topic.TypeList {
		reason = "String must be one of: " + names
	} else if reason == "must be true or false" {
		reason = "Expected value to be either true or false"
	} else if number := numbers[k.Type]; number != "" && strings.HasSuffix(reason, "number") {
		reason = "Not a number of type " + number
	}
	return valueRefusedAs(bad, reason)
}

func valueRefusedAs(bad *topic.ConfigError, reason string) string {
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", bad.Value, bad.Key, reason)
}

// topicRefused adds Kafka's message to the error of a topic that is not created.
func topicRefused(name string, err error) error {
	if bad := (*topic.ConfigError)(nil); errors.As(err, &bad) {
		if _, known := topic.LookupKey(bad.Key); !known {
			return refuse(InvalidConfig, "Unknown topic config name: "+bad.Key)
		}
		return refuse(InvalidConfig, valueRefused(bad))
	}
	if topic.ValidateName(name) != nil {
		err = nameSays(err, name)
	}
	return says(err, replication.ErrTopicExists, fmt.Sprintf("Topic '%s' already exists.", name))
}

// configured is the configuration in the response for a topic with these properties. Most requests
// create topics with the same properties; a description for each of them took a third of the time.
type configured struct {
	properties map[string]string
	configs    []kmsg.CreateTopicsResponseTopicConfig // nil before the first topic
}

// creatable returns the response for a topic that can be created, and its spec. On error the
// response has that error. It counts the partitions towards the client's quota.
//
// alike is the configuration of an earlier topic of the request. If the properties are equal, the
// response shares it; otherwise creatable replaces it.
func (c *call) creatable(ctx context.Context, t kmsg.CreateTopicsRequestTopic, alike *configured) (rt kmsg.CreateTopicsResponseTopic, spec replication.TopicSpec, err error) {
	spec.Name = t.Topic
	if spec.Config, err = c.requestedTopic(t); err != nil {
		return c.notCreated(t.Topic, err), spec, err
	}
	settings, shape, err := c.s.cluster.DryRun().CreateTopic(ctx, t.Topic, spec.Config)
	if errors.Is(err, replication.ErrInvalidReplicationFactor) {
		err = c.tooManyReplicas(spec.Config.ReplicationFactor)
	}
	if err == nil {
		err = c.mutate(shape.Partitions, 6)
	}
	if err != nil {
		return c.notCreated(t.Topic, err), spec, err
	}
	rt = kmsg.NewCreateTopicsResponseTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Topic, int32(shape.Partitions), int16(shape.ReplicationFactor)
	if alike.configs == nil || !maps.Equal(alike.properties, spec.Config.Properties) {
		*alike = configured{spec.Config.Properties, c.configsOf(settings)}
	}
	rt.Configs = alike.configs
	return rt, spec, nil
}

// tooManyReplicas returns Kafka's error for a replication factor above the number of brokers. 0
// means the cluster's default. Kafka: StripedReplicaPlacer, ReplicationControlManager.
func (c *call) tooManyReplicas(factor int) error {
	factor = cmp.Or(factor, c.s.cluster.ClusterConfig().Defaults.ReplicationFactor)
	known, _ := c.s.cluster.Metadata(c.ctx, noTopic)
	return refuse(InvalidReplicationFactor, fmt.Sprintf("Unable to replicate the partition %d time(s): "+
		"The target replication factor of %[1]d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.",
		factor, len(known.Brokers)+len(known.Fenced)))
}

// collides returns Kafka's error for a name that collides with the name of an existing topic.
// Kafka: ReplicationControlManager.validateNewTopicNames.
func (c *call) collides(name string) error {
	text := fmt.Sprintf("Topic '%s' collides with existing topic: ", name)
	known, _ := c.s.cluster.Metadata(c.ctx)
	for other := range known.Topics {
		if topic.CollisionKey(other) == topic.CollisionKey(name) {
			text += other
		}
	}
	return refuse(InvalidTopicException, text)
}

// configsOf returns the settings of a topic for a CreateTopics response.
func (c *call) configsOf(settings topic.Settings) []kmsg.CreateTopicsResponseTopicConfig {
	entries := c.topicEntries(settings, c.s.cluster.Controller())
	configs := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		configs = append(configs, kmsg.CreateTopicsResponseTopicConfig{Name: e.name, Value: &e.value, Source: int8(e.source), ReadOnly: e.readOnly})
	}
	return configs
}

// requestedTopic returns the configuration of a topic in the request. -1 partitions or replicas
// mean the cluster's default; 0 is rejected.
func (c *call) requestedTopic(t kmsg.CreateTopicsRequestTopic) (cfg topic.Config, err error) {
	var nulls []string
	cfg.Properties = map[string]string{}
	for _, kv := range t.Configs {
		if kv.Value == nil {
			nulls = append(nulls, kv.Name)
			continue
		}
		cfg.Properties[kv.Name] = *kv.Value
	}
	if err := c.s.cluster.DryRun().TopicConfig(t.Topic, cfg.Properties); err != nil {
		return cfg, err
	}
	if len(nulls) > 0 {
		return cfg, refuse(InvalidConfig, "Null value not supported for topic configs: "+strings.Join(nulls, ","))
	}
	if len(t.ReplicaAssignment) > 0 {
		err := c.assigned(t, &cfg)
		return cfg, err
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return cfg, refuse(InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return cfg, refuse(InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if t.NumPartitions > 0 {
		cfg.Partitions = int(t.NumPartitions)
	}
	if t.ReplicationFactor > 0 {
		cfg.ReplicationFactor = int(t.ReplicationFactor)
	}
	if c.s.cfg.LenientReplication {
		cfg.ReplicationFactor = min(cfg.ReplicationFactor, len(c.s.cluster.Brokers()))
	}
	return cfg, nil
}

// assigned adds a manual assignment of replicas to cfg.
func (c *call) assigned(t kmsg.CreateTopicsRequestTopic, cfg *topic.Config) error {
	for _, set := range []struct {
		is   int32
		name string
	}{{int32(t.ReplicationFactor), "replication factor"}, {t.NumPartitions, "numPartitions"}} {
		if set.is != -1 {
			return refuse(InvalidRequest, "A manual partition assignment was specified, but "+set.name+" was not set to -1.")
		}
	}
	given := map[int32][]int32{}
	factor := 0 // of the previous partition; 0 before the first
	for _, a := range t.ReplicaAssignment {
		if _, twice := given[a.Partition]; twice {
			return refuse(InvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.Partition))
		}
		if err := c.assignable(a.Replicas, factor); err != nil {
			return err
		}
		given[a.Partition], factor = a.Replicas, len(a.Replicas)
	}
	for p := range int32(len(given)) {
		replicas, ok := given[p]
		if !ok {
			return refuse(InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		cfg.Assignment = append(cfg.Assignment, replicas)
	}
	cfg.Partitions, cfg.ReplicationFactor = len(given), factor
	return nil
}

// assignable rejects replicas that a partition cannot have, and a number of replicas other than
// factor. Factor 0 accepts any number. Kafka:
// ReplicationControlManager.validateManualPartitionAssignment, which checks replicas in the order
// of their ids.
func (c *call) assignable(replicas []int32, factor int) error {
	if len(replicas) == 0 {
		return refuse(InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	brokers, sorted := c.s.cluster.Brokers(), slices.Sorted(slices.Values(replicas))
	for i, b := range sorted {
		if !slices.Contains(brokers, b) {
			return refuse(InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", b))
		}
		if i > 0 && sorted[i-1] == b {
			return refuse(InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", b))
		}
	}
	if factor > 0 && len(replicas) != factor {
		return refuse(InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor))
	}
	return nil
}
