package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/topic"
)

// A DryRun validates changes of topics against the present metadata, with the same errors as the
// methods of Cluster, without making them. Its methods do not block. Kafka: validate_only.
type DryRun struct{ c *Cluster }

// DryRun returns a dry run of c.
func (c *Cluster) DryRun() DryRun { return DryRun{c} }

// CreateTopic is Cluster.CreateTopic. It returns the settings that the topic would have, and a
// Config with its partitions and replicas.
func (d DryRun) CreateTopic(ctx context.Context, name string, cfg topic.Config) (topic.Settings, topic.Config, error) {
	n, err := d.c.newTopic(name, cfg)
	if err == nil {
		err = d.decide(ctx, d.c.createTopic(n))
	}
	if err != nil {
		return topic.Settings{}, topic.Config{}, fmt.Errorf("create topic %q: %w", name, err)
	}
	return n.settings, topic.Config{Partitions: n.partitions, ReplicationFactor: n.factor}, nil
}

// TopicConfig validates the parts of CreateTopic that Kafka checks first: the name, and the
// configuration by Kafka's keys. Errors: ErrInvalidTopic, ErrTopicExists and *topic.ConfigError.
func (d DryRun) TopicConfig(name string, properties map[string]string) error {
	if _, err := d.c.newTopic(name, topic.Config{Partitions: 1, ReplicationFactor: 1, Properties: properties}); err != nil {
		return fmt.Errorf("create topic %q: %w", name, err)
	}
	return nil
}

// AddPartitions is Cluster.AddPartitions.
func (d DryRun) AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error {
	if err := d.decide(ctx, d.c.addPartitions(name, total, assignment)); err != nil {
		return fmt.Errorf("add partitions to %q: %w", name, err)
	}
	return nil
}

// AlterTopicConfig is Cluster.AlterTopicConfig.
func (d DryRun) AlterTopicConfig(ctx context.Context, name string, changes ...ConfigChange) error {
	return d.alterTopic(ctx, name, applyChanges(changes))
}

// ReplaceTopicConfig is Cluster.ReplaceTopicConfig.
func (d DryRun) ReplaceTopicConfig(ctx context.Context, name string, props map[string]string) error {
	return d.alterTopic(ctx, name, replaceConfig(props))
}

func (d DryRun) alterTopic(ctx context.Context, name string, e edit) error {
	a := &topicAlteration{c: d.c, name: name, edit: e}
	if err := d.decide(ctx, a.decide); err != nil {
		return fmt.Errorf("alter topic %q: %w", name, err)
	}
	return nil
}

func (d DryRun) decide(ctx context.Context, decide decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.c.mu.RLock()
	defer d.c.mu.RUnlock()
	if d.c.closed {
		return ErrClosed
	}
	_, err := decide(d.c.image)
	return d.c.refusal(d.c.image, err)
}
