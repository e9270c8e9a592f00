package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// ClusterID returns the id of the cluster. It is empty if the brokers have none (before Kafka
// 0.10.1).
func (s *session) ClusterID() string {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view.Metadata(nil).ClusterID
}

// topicError returns the error of a code in the response about a topic.
func topicError(name string, code int16, message *string) error {
	switch code {
	case 0:
		return nil
	case kerr.InvalidConfig.Code:
		return &topic.ConfigError{Key: name, Reason: text(message)}
	}
	return fmt.Errorf("topic %q: %w", name, codeError(fromAdmin, code, message))
}

// CreateTopic creates a topic. It returns when the partitions have leaders. Config.ID is not
// supported: the cluster chooses the id. Errors: replication.ErrTopicExists, topic.ErrInvalidName,
// replication.ErrInvalidPartitions, replication.ErrInvalidReplicationFactor,
// replication.ErrInvalidAssignment, replication.ErrPolicyViolation, *topic.ConfigError.
func (c *Cluster) CreateTopic(ctx context.Context, name string, cfg topic.Config) error {
	settings, err := cfg.Explicit()
	if err != nil {
		return err
	}
	if !cfg.ID.IsZero() {
		return &topic.ConfigError{Key: "ID", Value: cfg.ID.String(), Reason: "the cluster chooses the id of a topic"}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = millis(c.cfg.RequestTimeout)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if cfg.Partitions > 0 {
		t.NumPartitions = int32(cfg.Partitions)
	}
	if cfg.ReplicationFactor > 0 {
		t.ReplicationFactor = int16(cfg.ReplicationFactor)
	}
	for p, brokers := range cfg.Assignment {
		t.NumPartitions, t.ReplicationFactor = -1, -1
		one := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		one.Partition, one.Replicas = int32(p), brokers
		t.ReplicaAssignment = append(t.ReplicaAssignment, one)
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		one := kmsg.NewCreateTopicsRequestTopicConfig()
		one.Name, one.Value = key, kmsg.StringPtr(settings[key])
		t.Configs = append(t.Configs, one)
	}
	req.Topics = append(req.Topics, t)
	resp, err := toAny[*kmsg.CreateTopicsResponse](ctx, c.session, "create topic", fromAdmin, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := topicError(name, t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	return c.awaitLeaders(ctx, name, 1)
}

// awaitLeaders waits until a topic has at least n partitions, and each has a leader.
func (c *Cluster) awaitLeaders(ctx context.Context, name string, n int) error {
	for {
		md, err := c.Metadata(ctx, name)
		if err != nil {
			return err
		}
		t := md.Topics[name]
		if t.Err == nil && len(t.Partitions) >= n && !slices.ContainsFunc(t.Partitions, func(p replication.PartitionMetadata) bool { return p.Leader < 0 }) {
			return nil
		}
		if err := c.pause(ctx, doubtInterval); err != nil {
			return fmt.Errorf("topic %q exists, but has no leaders yet: %w", name, err)
		}
	}
}

// EnsureTopic is CreateTopic that accepts an existing topic. If the topic has other partitions,
// replicas or settings than those in cfg, it is not changed, and the error is a
// *replication.TopicDiffersError, which lists the differences.
func (c *Cluster) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	err := c.CreateTopic(ctx, name, cfg)
	if !errors.Is(err, replication.ErrTopicExists) {
		return err
	}
	explicit, err := cfg.Explicit()
	if err != nil {
		return err
	}
	if err := c.awaitLeaders(ctx, name, 1); err != nil {
		return err
	}
	md, err := c.Metadata(ctx, name)
	if err != nil {
		return err
	}
	has, err := c.settings(ctx, name)
	if err != nil {
		return err
	}
	partitions, factor, ps := cfg.Partitions, cfg.ReplicationFactor, md.Topics[name].Partitions
	if len(cfg.Assignment) > 0 {
		partitions, factor = len(cfg.Assignment), len(cfg.Assignment[0])
	}
	differs := &replication.TopicDiffersError{Topic: name}
	note := func(what, want, is string) {
		differs.Differences = append(differs.Differences, replication.TopicDifference{Name: what, Wanted: want, Has: is})
	}
	if partitions != 0 && partitions != len(ps) {
		note("partitions", strconv.Itoa(partitions), strconv.Itoa(len(ps)))
	}
	if len(ps) > 0 && factor != 0 && factor != len(ps[0].Replicas) {
		note("replication factor", strconv.Itoa(factor), strconv.Itoa(len(ps[0].Replicas)))
	}
	for _, key := range slices.Sorted(maps.Keys(explicit)) {
		if is := has[key].value; is != explicit[key] {
			note(key, explicit[key], is)
		}
	}
	if len(differs.Differences) > 0 {
		return differs
	}
	return nil
}

// setting is one effective setting of a topic. own is true if the topic itself has it.
type setting struct {
	value string
	own   bool
}

// settings returns the effective settings of a topic, by their Kafka keys.
func (c *Cluster) settings(ctx context.Context, name string) (map[string]setting, error) {
	return c.config(ctx, kmsg.ConfigResourceTypeTopic, name)
}

// config returns the effective configuration of a topic or group.
func (c *Cluster) config(ctx context.Context, kind kmsg.ConfigResourceType, name string) (map[string]setting, error) {
	all, err := c.configs(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	return all[name].settings, all[name].err
}

// A described is the effective configuration of a topic or group.
type described struct {
	settings map[string]setting
	err      error
}

// configsAtOnce is the number of configurations in one response. Kafka has about 2 kB for a topic.
const configsAtOnce = 500

// configs returns the effective configurations of topics or groups, by their names.
func (c *Cluster) configs(ctx context.Context, kind kmsg.ConfigResourceType, names ...string) (map[string]described, error) {
	all := make(map[string]described, len(names))
	for some := range slices.Chunk(names, configsAtOnce) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, name := range some {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kind, name
			req.Resources = append(req.Resources, r)
		}
		resp, err := readAny[*kmsg.DescribeConfigsResponse](ctx, c.session, "describe configs", fromAdmin, func() kmsg.Request {
			one := *req
			return &one
		})
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Resources {
			d := described{settings: map[string]setting{}, err: topicError(r.ResourceName, r.ErrorCode, r.ErrorMessage)}
			for _, s := range r.Configs {
				d.settings[s.Name] = setting{text(s.Value), s.Source == kmsg.ConfigSourceDynamicTopicConfig}
			}
			all[r.ResourceName] = d
		}
	}
	return all, nil
}

// AddPartitions increases the number of partitions of a topic to total. It returns when they have
// leaders. Errors: replication.ErrUnknownTopic, replication.ErrInvalidPartitions,
// replication.ErrInvalidAssignment, replication.ErrPolicyViolation.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = millis(c.cfg.RequestTimeout)
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, int32(total)
	for _, brokers := range assignment {
		one := kmsg.NewCreatePartitionsRequestTopicAssignment()
		one.Replicas = brokers
		t.Assignment = append(t.Assignment, one)
	}
	req.Topics = append(req.Topics, t)
	resp, err := toAny[*kmsg.CreatePartitionsResponse](ctx, c.session, "add partitions", fromAdmin, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := topicError(name, t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	return c.awaitLeaders(ctx, name, total)
}

// AlterTopic sets configuration keys of a topic, either all or none. Keys that are not in props are
// not changed. When it returns nil the change is made; brokers apply and describe it a moment
// later. Errors: replication.ErrUnknownTopic, *topic.ConfigError.
func (c *Cluster) AlterTopic(ctx context.Context, name string, props map[string]string) error {
	changes := make([]replication.ConfigChange, 0, len(props))
	for _, key := range slices.Sorted(maps.Keys(props)) {
		changes = append(changes, replication.ConfigChange{Key: key, Op: replication.SetConfig, Value: props[key]})
	}
	return c.AlterTopicConfig(ctx, name, changes...)
}

// AlterTopicConfig is AlterTopic that can also unset keys, and add or remove elements of lists.
func (c *Cluster) AlterTopicConfig(ctx context.Context, name string, changes ...replication.ConfigChange) error {
	return c.alterConfigs(ctx, kmsg.ConfigResourceTypeTopic, name, changes)
}

// alterConfigs changes the configuration of a topic or group.
func (c *Cluster) alterConfigs(ctx context.Context, kind kmsg.ConfigResourceType, name string, changes []replication.ConfigChange) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, ch := range changes {
		one := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		one.Name, one.Op = ch.Key, kmsg.IncrementalAlterConfigOp(ch.Op)
		if ch.Op != replication.UnsetConfig {
			one.Value = kmsg.StringPtr(ch.Value)
		}
		r.Configs = append(r.Configs, one)
	}
	req.Resources = append(req.Resources, r)
	resp, err := toAny[*kmsg.IncrementalAlterConfigsResponse](ctx, c.session, "alter configs", fromAdmin, req)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := topicError(name, r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// DeleteTopic deletes a topic with all its records. It returns when a broker no longer has it.
// Errors: replication.ErrUnknownTopic, replication.ErrPolicyViolation.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	before, err := c.Metadata(ctx, name)
	if err == nil {
		err = before.Topics[name].Err
	}
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = millis(c.cfg.RequestTimeout), []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	resp, err := toAny[*kmsg.DeleteTopicsResponse](ctx, c.session, "delete topic", fromAdmin, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := topicError(name, t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	for {
		md, err := c.Metadata(ctx, name)
		switch {
		case err != nil:
			return err
		case md.Topics[name].Err != nil, md.Topics[name].ID != before.Topics[name].ID:
			return nil
		}
		if err := c.pause(ctx, doubtInterval); err != nil {
			return err
		}
	}
}

// Topics describes all topics, sorted by name. Sizes are unknown: 0. Without the right to describe
// a topic's configuration its Settings are the defaults.
func (c *Cluster) Topics(ctx context.Context) ([]topic.Info, error) {
	md, err := c.Metadata(ctx)
	if err != nil {
		return nil, err
	}
	return c.describe(ctx, slices.Collect(maps.Values(md.Topics)))
}

// Topic describes one topic. Sizes are unknown: 0. The end of a log is its high watermark. Errors:
// replication.ErrUnknownTopic.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	md, err := c.Metadata(ctx, name)
	if err == nil {
		err = md.Topics[name].Err
	}
	if err != nil {
		return topic.Info{}, err
	}
	infos, err := c.describe(ctx, []replication.TopicMetadata{md.Topics[name]})
	if err != nil {
		return topic.Info{}, err
	}
	return infos[0], nil
}

func (c *Cluster) describe(ctx context.Context, topics []replication.TopicMetadata) ([]topic.Info, error) {
	ends, starts := map[record.TopicPartition]partition.OffsetSpec{}, map[record.TopicPartition]partition.OffsetSpec{}
	for _, t := range topics {
		for p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Name, Partition: int32(p)}
			ends[tp], starts[tp] = partition.Latest, partition.Earliest
		}
	}
	end, err := c.knownOffsets(ctx, ends, describeWait)
	if err != nil {
		return nil, err
	}
	start, err := c.knownOffsets(ctx, starts, describeWait)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	configs, err := c.configs(ctx, kmsg.ConfigResourceTypeTopic, names...)
	if err != nil {
		return nil, err
	}
	infos := make([]topic.Info, 0, len(topics))
	for _, t := range topics {
		settings, err := configs[t.Name].settings, configs[t.Name].err
		switch {
		case errors.Is(err, replication.ErrUnknownTopic):
			continue // deleted meanwhile
		case errors.Is(err, ErrNotAuthorized):
			settings, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
		info := topic.Info{Name: t.Name, ID: t.ID, Internal: t.Internal}
		if info.Settings, err = parseSettings(settings); err != nil {
			return nil, fmt.Errorf("topic %q: %w", t.Name, err)
		}
		for p, m := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Name, Partition: int32(p)}
			info.Partitions = append(info.Partitions, topic.PartitionInfo{
				Partition: int32(p), Leader: m.Leader, LeaderEpoch: m.LeaderEpoch, Replicas: m.Replicas, ISR: m.ISR,
				LogStartOffset: max(start[tp].Offset, 0), HighWatermark: max(end[tp].Offset, 0), LogEndOffset: max(end[tp].Offset, 0), Err: cmp.Or(start[tp].Err, end[tp].Err),
			})
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b topic.Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// parseSettings returns the settings that this module has too: brokers of other kinds have more.
func parseSettings(all map[string]setting) (topic.Settings, error) {
	known := map[string]bool{}
	for _, s := range (topic.Settings{}).Describe() {
		known[s.Key.Name] = true
	}
	own, cluster := map[string]string{}, map[string]string{}
	for key, s := range all {
		switch {
		case !known[key]:
		case s.own:
			own[key] = s.value
		default:
			cluster[key] = s.value
		}
	}
	return topic.Parse(own, cluster)
}

// DeleteRecords moves the log start offsets of partitions forward to the given offsets, -1 meaning
// the high watermark, and returns the new ones. The error joins the errors of failed partitions;
// the result holds the others.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = millis(c.cfg.RequestTimeout)
	topics := index[string]{}
	for tp, offset := range before {
		i, first := topics.of(tp.Topic)
		if first {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = tp.Partition, offset
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := toAny[*kmsg.DeleteRecordsResponse](ctx, c.session, "delete records", fromPartition, req)
	if err != nil {
		return nil, err
	}
	starts, errs := map[record.TopicPartition]int64{}, []error(nil)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if p.ErrorCode == 0 {
				starts[tp] = p.LowWatermark
			} else {
				errs = append(errs, fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, codeError(fromPartition, p.ErrorCode, nil)))
			}
		}
	}
	return starts, errors.Join(errs...)
}

// Offsets returns the offset of each partition of a topic that at selects: Earliest, Latest,
// MaxTimestamp, or At of a time. Partitions without such a record are left out.
func (c *Cluster) Offsets(ctx context.Context, name string, at partition.OffsetSpec) (record.Offsets, error) {
	md, err := c.Metadata(ctx, name)
	if err == nil {
		err = md.Topics[name].Err
	}
	if err != nil {
		return nil, fmt.Errorf("remote: offsets of %s: %w", name, err)
	}
	ask := map[record.TopicPartition]partition.OffsetSpec{}
	for p := range md.Topics[name].Partitions {
		ask[record.TopicPartition{Topic: name, Partition: int32(p)}] = at
	}
	got, err := c.knownOffsets(ctx, ask, c.cfg.RequestTimeout)
	if err != nil {
		return nil, fmt.Errorf("remote: offsets of %s: %w", name, err)
	}
	offsets := record.Offsets{}
	for tp, r := range got {
		switch {
		case r.Err != nil:
			return nil, fmt.Errorf("remote: offset of %s-%d: %w", name, tp.Partition, r.Err)
		case r.Offset >= 0:
			offsets[tp] = r.Offset
		}
	}
	return offsets, nil
}

// describeWait is the time for which a description waits for the leader of a partition.
const describeWait = 2 * time.Second

// knownOffsets is ListOffsets, repeated while leaders change or do not respond, for at most a time.
func (s *session) knownOffsets(ctx context.Context, ask map[record.TopicPartition]partition.OffsetSpec, most time.Duration) (map[record.TopicPartition]partition.OffsetResult, error) {
	got := map[record.TopicPartition]partition.OffsetResult{}
	left := maps.Clone(ask)
	for began := time.Now(); ; {
		some, err := s.ListOffsets(ctx, left, partition.ReadUncommitted)
		if err != nil {
			return nil, err
		}
		for tp, r := range some {
			got[tp] = r
			if r.Err == nil || !passes(r.Err) && !errors.Is(r.Err, partition.ErrOffsetNotAvailable) {
				delete(left, tp)
			}
		}
		if len(left) == 0 || time.Since(began) > most {
			return got, nil
		}
		if err := s.pause(ctx, doubtInterval); err != nil {
			return nil, err
		}
	}
}
