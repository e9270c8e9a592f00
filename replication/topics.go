package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// CreateTopic creates a topic. When it returns nil the topic is on stable storage and can be
// written to. Its partitions get their directories when they are first written.
//
// Errors: ErrTopicExists, ErrInvalidTopic (also if only '.' and '_' distinguish the name from an
// existing one), ErrInvalidPartitions, ErrInvalidReplicationFactor, ErrPolicyViolation (more than
// 10,000 partitions), *topic.ConfigError, ErrClosed, ctx's. If ctx ends during the call the topic
// may be created all the same.
func (c *Cluster) CreateTopic(ctx context.Context, name string, cfg topic.Config) error {
	n, err := c.newTopic(name, cfg)
	if err != nil {
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	if err := c.change(ctx, c.createTopic(n)); err != nil {
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	n.settings.Warn(c.logger, name, n.factor)
	return nil
}

// EnsureTopic is CreateTopic that is content with a topic of that name, whatever its settings.
func (c *Cluster) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	c.mu.RLock()
	exists := c.image.topics[name] != nil
	c.mu.RUnlock()
	if exists {
		return nil
	}
	if err := c.CreateTopic(ctx, name, cfg); !errors.Is(err, ErrTopicExists) {
		return err
	}
	return nil
}

// newTopic is a checked request for a topic.
type newTopic struct {
	name               string
	partitions, factor int
	settings           topic.Settings
}

func (c *Cluster) newTopic(name string, cfg topic.Config) (n newTopic, err error) {
	if err := topic.ValidateName(name); err != nil {
		return n, err
	}
	if name == topic.MetadataTopic {
		return n, fmt.Errorf("%w: it is the controller's log", ErrInvalidTopic)
	}
	c.mu.RLock()
	err = c.image.claimable(name)
	c.mu.RUnlock()
	if err != nil {
		return n, err // whatever else is wrong, as in Kafka
	}
	n = newTopic{
		name:       name,
		partitions: orDefault(cfg.Partitions, c.cfg.Defaults.Partitions),
		factor:     orDefault(cfg.ReplicationFactor, c.cfg.Defaults.ReplicationFactor),
	}
	explicit, err := cfg.Explicit()
	if err == nil {
		n.settings, err = topic.Parse(explicit, c.currentDefaults())
	}
	switch {
	case err != nil:
		return n, err
	case n.partitions < 1:
		return n, fmt.Errorf("%w: %d", ErrInvalidPartitions, n.partitions)
	case n.partitions > maxNewPartitions:
		return n, fmt.Errorf("%w: %d partitions, at most %d are created at once", ErrPolicyViolation, n.partitions, maxNewPartitions)
	case n.factor < 1 || n.factor > c.cfg.Brokers:
		return n, fmt.Errorf("%w: %d, with %d brokers", ErrInvalidReplicationFactor, n.factor, c.cfg.Brokers)
	}
	return n, nil
}

// createTopic is the decision to create a topic.
func (c *Cluster) createTopic(n newTopic) decision {
	return func(img *image) ([]metarecord.Record, error) {
		recs, err := n.records(img)
		if err == nil {
			err = c.room(img, n.partitions)
		}
		return recs, err
	}
}

func (n newTopic) records(img *image) ([]metarecord.Record, error) {
	// Again: newTopic looked before the change had its turn.
	if err := img.claimable(n.name); err != nil {
		return nil, err
	}
	id := topic.NewID()
	recs := []metarecord.Record{&metarecord.Topic{Name: n.name, ID: id}}
	explicit := n.settings.Explicit()
	for _, k := range slices.Sorted(maps.Keys(explicit)) {
		v := explicit[k]
		recs = append(recs, &metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: n.name, Name: k, Value: &v})
	}
	return appendPartitions(recs, id, 0, n.partitions, n.factor), nil
}

// claimable returns why there can be no new topic of that name beside those there are.
func (m *image) claimable(name string) error {
	if m.topics[name] != nil {
		return ErrTopicExists
	}
	if other, ok := m.collisions[topic.CollisionKey(name)]; ok {
		return collision(name, other)
	}
	return nil
}

func appendPartitions(recs []metarecord.Record, id topic.ID, first, count, factor int) []metarecord.Record {
	for i, replicas := range place([]int32{brokerID}, first, count, factor) {
		recs = append(recs, &metarecord.Partition{
			Partition: int32(first + i), TopicID: id, Replicas: replicas, ISR: slices.Clone(replicas), Leader: replicas[0],
		})
	}
	return recs
}

// AddPartitions grows a topic to total partitions. Records already written stay where they are;
// where keys go changes from now on. Errors: ErrUnknownTopic, ErrInvalidPartitions (not more than
// there are), ErrPolicyViolation, ErrClosed, ctx's.
func (c *Cluster) AddPartitions(ctx context.Context, name string, total int) error {
	if err := c.change(ctx, c.addPartitions(name, total)); err != nil {
		return fmt.Errorf("add partitions to %q: %w", name, err)
	}
	return nil
}

func (c *Cluster) addPartitions(name string, total int) decision {
	return func(img *image) ([]metarecord.Record, error) {
		t := img.topics[name]
		if t == nil {
			return nil, img.unknownTopic(name)
		}
		have := len(t.partitions)
		switch {
		case total <= have:
			return nil, fmt.Errorf("%w: %d, it has %d", ErrInvalidPartitions, total, have)
		case total-have > maxNewPartitions:
			return nil, fmt.Errorf("%w: %d new partitions, at most %d are created at once", ErrPolicyViolation, total-have, maxNewPartitions)
		}
		if err := c.room(img, total-have); err != nil {
			return nil, err
		}
		factor := c.cfg.Defaults.ReplicationFactor
		if have > 0 {
			factor = len(t.partitions[0].replicas)
		}
		return appendPartitions(nil, t.id, have, total-have, factor), nil
	}
}

// room refuses more partitions than the cluster may have.
func (c *Cluster) room(img *image, more int) error {
	if img.partitions+more > c.cfg.MaxPartitions {
		return fmt.Errorf("%w: the cluster would have %d partitions, at most %d are allowed", ErrPolicyViolation, img.partitions+more, c.cfg.MaxPartitions)
	}
	return nil
}

// DeleteTopic deletes a topic with all its records, for good when it returns nil. Its directories
// have another name then, and are deleted after the broker's log.segment.delete.delay.ms, or by the
// next open. Whoever reads or writes it gets ErrUnknownTopic, or partition.ErrClosed if caught in
// the middle. Errors: ErrUnknownTopic, ErrPolicyViolation for an internal topic, ErrClosed, ctx's.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) error {
	err := c.change(ctx, func(img *image) ([]metarecord.Record, error) {
		t := img.topics[name]
		switch {
		case t == nil:
			return nil, img.unknownTopic(name)
		case topic.IsInternal(name):
			return nil, fmt.Errorf("%w: it holds the state of a coordinator", ErrPolicyViolation)
		}
		return []metarecord.Record{&metarecord.RemoveTopic{ID: t.id}}, nil
	})
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	return nil
}

// ConfigOp says what a ConfigChange does. Kafka: IncrementalAlterConfigs.
type ConfigOp uint8

const (
	SetConfig      ConfigOp = iota // gives the key a value
	UnsetConfig                    // returns to the default; Value does not matter
	AppendConfig                   // adds the elements of Value to a list that lacks them
	SubtractConfig                 // takes the elements of Value out of a list
)

// A ConfigChange changes one key of a topic's configuration.
type ConfigChange struct {
	Key   string
	Op    ConfigOp
	Value string
}

// AlterTopic sets configuration keys of a live topic; keys that props does not name stay as they
// are. It is AlterTopicConfig with SetConfig for all.
func (c *Cluster) AlterTopic(ctx context.Context, name string, props map[string]string) error {
	changes := make([]ConfigChange, 0, len(props))
	for _, k := range slices.Sorted(maps.Keys(props)) {
		changes = append(changes, ConfigChange{Key: k, Value: props[k]})
	}
	return c.AlterTopicConfig(ctx, name, changes...)
}

// AlterTopicConfig changes a topic's configuration, all of it or nothing. When it returns nil the
// change is on stable storage, and open partitions go by it. Errors: ErrUnknownTopic,
// *topic.ConfigError, ErrClosed, ctx's.
func (c *Cluster) AlterTopicConfig(ctx context.Context, name string, changes ...ConfigChange) error {
	return c.alterTopic(ctx, name, applyChanges(changes))
}

// ReplaceTopicConfig makes props the whole of what is set on a topic: keys that it does not name
// return to their defaults. Errors: those of AlterTopicConfig. Kafka: AlterConfigs.
func (c *Cluster) ReplaceTopicConfig(ctx context.Context, name string, props map[string]string) error {
	return c.alterTopic(ctx, name, replaceConfig(props))
}

// An edit changes a configuration in place; it knows the defaults below it.
type edit func(config, defaults map[string]string) error

func applyChanges(changes []ConfigChange) edit {
	return func(config, defaults map[string]string) error {
		for _, ch := range changes {
			if err := ch.apply(config, defaults); err != nil {
				return err
			}
		}
		return nil
	}
}

func replaceConfig(props map[string]string) edit {
	return func(config, _ map[string]string) error {
		clear(config)
		maps.Copy(config, props)
		return nil
	}
}

func (c *Cluster) alterTopic(ctx context.Context, name string, e edit) error {
	a := &topicAlteration{c: c, name: name, edit: e, factor: 1}
	if err := c.change(ctx, a.decide); err != nil {
		return fmt.Errorf("alter topic %q: %w", name, err)
	}
	a.settings.Warn(c.logger, name, a.factor)
	return nil
}

// topicAlteration is a change of a topic's configuration and, when decided, what it comes to.
type topicAlteration struct {
	c        *Cluster
	name     string
	edit     edit
	factor   int
	settings topic.Settings
}

func (a *topicAlteration) decide(img *image) ([]metarecord.Record, error) {
	t := img.topics[a.name]
	if t == nil {
		return nil, img.unknownTopic(a.name)
	}
	if len(t.partitions) > 0 {
		a.factor = len(t.partitions[0].replicas)
	}
	config := maps.Clone(t.config)
	defaults := a.c.defaultsOf(img)
	err := a.edit(config, defaults)
	if err != nil {
		return nil, err
	}
	if a.settings, err = topic.Parse(config, defaults); err != nil {
		return nil, err
	}
	return configRecords(metarecord.ResourceTopic, a.name, t.config, config), nil
}

// apply changes config in place.
func (ch ConfigChange) apply(config, defaults map[string]string) error {
	k, ok := topic.LookupKey(ch.Key)
	bad := func(reason string) error { return &topic.ConfigError{Key: ch.Key, Value: ch.Value, Reason: reason} }
	switch {
	case !ok:
		return bad("there is no such topic configuration")
	case ch.Op == SetConfig:
		config[ch.Key] = ch.Value
		return nil
	case ch.Op == UnsetConfig:
		delete(config, ch.Key)
		return nil
	case k.Type != topic.TypeList:
		return bad("it is not a list")
	case ch.Op != AppendConfig && ch.Op != SubtractConfig:
		return bad(fmt.Sprintf("unknown operation %d", ch.Op))
	}
	current, ok := config[ch.Key]
	if !ok {
		if current, ok = defaults[ch.Key]; !ok {
			current = k.Default
		}
	}
	list := topic.SplitList(current)
	for _, item := range topic.SplitList(ch.Value) {
		at := slices.Index(list, item)
		switch {
		case ch.Op == AppendConfig && at < 0:
			list = append(list, item)
		case ch.Op == SubtractConfig && at >= 0:
			list = slices.Delete(list, at, at+1)
		}
	}
	config[ch.Key] = strings.Join(list, ",")
	return nil
}

// configRecords returns the records that turn one configuration of a resource into another.
func configRecords(kind int8, name string, from, to map[string]string) []metarecord.Record {
	var recs []metarecord.Record
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[k]; !stays {
			recs = append(recs, &metarecord.Config{ResourceType: kind, ResourceName: name, Name: k})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(to)) {
		if v, had := from[k]; !had || v != to[k] {
			v := to[k]
			recs = append(recs, &metarecord.Config{ResourceType: kind, ResourceName: name, Name: k, Value: &v})
		}
	}
	return recs
}

// Topics describes all topics, sorted by name.
func (c *Cluster) Topics(ctx context.Context) ([]topic.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return nil, ErrClosed
	}
	ts := slices.Collect(maps.Values(c.image.topics))
	c.mu.RUnlock()
	slices.SortFunc(ts, func(a, b *topicImage) int { return strings.Compare(a.name, b.name) })
	infos := make([]topic.Info, len(ts))
	for i, t := range ts {
		infos[i] = c.info(t)
	}
	return infos, nil
}

// Topic describes one topic. Errors: ErrUnknownTopic, ErrClosed, ctx's.
func (c *Cluster) Topic(ctx context.Context, name string) (topic.Info, error) {
	if err := ctx.Err(); err != nil {
		return topic.Info{}, err
	}
	c.mu.RLock()
	t, closed := c.image.topics[name], c.closed
	var unknown error
	if t == nil && !closed {
		unknown = c.image.unknownTopic(name)
	}
	c.mu.RUnlock()
	switch {
	case closed:
		return topic.Info{}, ErrClosed
	case t == nil:
		return topic.Info{}, unknown
	}
	return c.info(t), nil
}

func (c *Cluster) info(t *topicImage) topic.Info {
	s := c.settings(t)
	info := topic.Info{Name: t.name, ID: t.id, Internal: topic.IsInternal(t.name), Settings: s, Partitions: make([]topic.PartitionInfo, len(t.partitions))}
	for i, p := range t.partitions {
		pi := topic.PartitionInfo{Partition: int32(i), Leader: p.leader, LeaderEpoch: p.leaderEpoch, Replicas: slices.Clone(p.replicas), ISR: slices.Clone(p.isr)}
		if r := c.broker.replica(record.TopicPartition{Topic: t.name, Partition: int32(i)}); r != nil && r.id == t.id {
			part, err := r.state()
			pi.Err = err
			if part != nil {
				st := part.Stats()
				pi.LogStartOffset, pi.HighWatermark, pi.LogEndOffset = st.LogStartOffset, st.HighWatermark, st.LogEndOffset
				pi.SizeBytes = st.SizeBytes
			}
		}
		info.Partitions[i] = pi
	}
	return info
}
