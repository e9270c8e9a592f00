package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A TopicSpec is the name and configuration of a topic to create.
type TopicSpec struct {
	Name   string
	Config topic.Config
}

// CreateTopics creates topics independently of each other: errs[i] is the result of CreateTopic for
// topics[i]. They are created in the given order. They share one write of the metadata, and one
// sync, unless they have more than 10,000 partitions together. An error of that write, or the
// context's error, is returned for each of them.
func (c *Cluster) CreateTopics(ctx context.Context, topics []TopicSpec) (errs []error) {
	errs = make([]error, len(topics))
	var together []creation
	partitions := 0
	for i, t := range topics {
		n, err := c.newTopic(t.Name, t.Config)
		if err != nil {
			errs[i] = fmt.Errorf("create topic %q: %w", t.Name, err)
			continue
		}
		if partitions+n.partitions > image.MaxNewPartitions {
			c.create(ctx, together, errs)
			together, partitions = nil, 0
		}
		together, partitions = append(together, creation{n, i}), partitions+n.partitions
	}
	c.create(ctx, together, errs)
	return errs
}

// creation is a validated request and its index in the call.
type creation struct {
	newTopic
	index int
}

// create makes one change of several creations and stores the error of each in errs.
func (c *Cluster) create(ctx context.Context, ns []creation, errs []error) {
	// Read only when the change has been made: it may be decided on after ctx has ended.
	refused := make([]error, len(ns))
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		recs, why := img.CreateTopics(creations(ns), c.limits())
		for i := range why {
			refused[i] = c.refusal(img, why[i])
		}
		return recs, nil
	})
	for i, n := range ns {
		failed := err
		if failed == nil {
			failed = refused[i]
		}
		if failed != nil {
			errs[n.index] = fmt.Errorf("create topic %q: %w", n.name, failed)
			continue
		}
		n.settings.Warn(c.logger, n.name, n.factor)
	}
}

// CreateTopic creates a topic. When it returns nil, the topic is on stable storage and can be
// written to. A partition's directory is created at the first write to it.
//
// If cfg.ID is set, a call whose outcome is unknown can be repeated: it returns nil if the topic
// exists with that configuration, whichever call created it.
//
// Errors: ErrTopicExists, ErrTopicIDInUse, ErrInvalidTopic (also if the name differs from an
// existing one only in '.' and '_'), ErrInvalidPartitions, ErrInvalidReplicationFactor,
// ErrInvalidAssignment, ErrPolicyViolation (more than 10,000 partitions), *topic.ConfigError,
// ErrClosed, and the context's error. If ctx ends during the call, the topic may still be created.
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

// EnsureTopic is CreateTopic, but succeeds if the topic exists. If the number of partitions or
// replicas, or a setting, differs from cfg, it returns a *TopicDiffersError and changes nothing.
// Fields that cfg leaves unset are not compared.
func (c *Cluster) EnsureTopic(ctx context.Context, name string, cfg topic.Config) error {
	c.mu.RLock()
	exists := c.image.Topics[name] != nil
	c.mu.RUnlock()
	if !exists {
		if err := c.CreateTopic(ctx, name, cfg); !errors.Is(err, ErrTopicExists) {
			return err
		}
	}
	return c.compareTopic(name, cfg)
}

// compareTopic returns a *TopicDiffersError if a topic differs from what cfg names.
func (c *Cluster) compareTopic(name string, cfg topic.Config) error {
	explicit, err := cfg.Explicit()
	if err != nil {
		return fmt.Errorf("ensure topic %q: %w", name, err)
	}
	c.mu.RLock()
	t := c.image.Topics[name]
	c.mu.RUnlock()
	if t == nil {
		return nil // deleted meanwhile
	}
	partitions, factor := cfg.Partitions, cfg.ReplicationFactor
	if len(cfg.Assignment) > 0 {
		partitions, factor = len(cfg.Assignment), len(cfg.Assignment[0])
	}
	differs := &TopicDiffersError{Topic: name}
	if partitions != 0 && partitions != len(t.Partitions) {
		differs.add("partitions", strconv.Itoa(partitions), strconv.Itoa(len(t.Partitions)))
	}
	if replicas := len(t.Partitions[0].Replicas); factor != 0 && factor != replicas {
		differs.add("replication factor", strconv.Itoa(factor), strconv.Itoa(replicas))
	}
	settings := c.settings(t)
	for _, key := range slices.Sorted(maps.Keys(explicit)) {
		if has, _ := settings.Value(key); has != explicit[key] {
			differs.add(key, explicit[key], has)
		}
	}
	if len(differs.Differences) == 0 {
		return nil
	}
	return differs
}

// newTopic is a checked request for a topic.
type newTopic struct {
	name               string
	id                 topic.ID // zero: to be drawn
	partitions, factor int
	assignment         [][]int32 // nil: the controller places the partitions
	settings           topic.Settings
}

func (c *Cluster) newTopic(name string, cfg topic.Config) (n newTopic, err error) {
	if err := topic.ValidateName(name); err != nil {
		return n, err
	}
	if name == topic.MetadataTopic {
		return n, fmt.Errorf("%w: it is the controller's log", ErrInvalidTopic)
	}
	if cfg.ID == metadataTopicID {
		return n, fmt.Errorf("%w: %v is the id of the controller's log", ErrTopicIDInUse, cfg.ID)
	}
	c.mu.RLock()
	if t := c.image.Topics[name]; t == nil || t.ID != cfg.ID {
		err = c.image.Claimable(name)
	}
	c.mu.RUnlock()
	if err != nil {
		return n, err // even if cfg has other errors, as in Kafka
	}
	n = newTopic{
		id:         cfg.ID,
		name:       name,
		partitions: orDefault(cfg.Partitions, c.cfg.Defaults.Partitions),
		factor:     orDefault(cfg.ReplicationFactor, c.cfg.Defaults.ReplicationFactor),
	}
	if n.assignment = cfg.Assignment; n.assignment != nil {
		if err := n.shapeOf(cfg); err != nil {
			return n, err
		}
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
	case n.partitions > image.MaxNewPartitions:
		return n, fmt.Errorf("%w: %d partitions, at most %d are created at once", ErrPolicyViolation, n.partitions, image.MaxNewPartitions)
	case n.factor < 1 || n.factor > maxFactor:
		return n, fmt.Errorf("%w: %d, a partition has at most %d", ErrInvalidReplicationFactor, n.factor, maxFactor)
	}
	return n, nil
}

// maxFactor is how many replicas a partition can have.
const maxFactor = maxBrokers

// shapeOf takes the numbers of partitions and replicas from the assignment.
func (n *newTopic) shapeOf(cfg topic.Config) error {
	if len(n.assignment) == 0 {
		return fmt.Errorf("%w: it is empty", ErrInvalidAssignment)
	}
	n.partitions, n.factor = len(n.assignment), len(n.assignment[0])
	if cfg.Partitions != 0 && cfg.Partitions != n.partitions || cfg.ReplicationFactor != 0 && cfg.ReplicationFactor != n.factor {
		return fmt.Errorf("%w: it has %d partitions with %d replicas, the topic is to have %d with %d", ErrInvalidAssignment,
			n.partitions, n.factor, cfg.Partitions, cfg.ReplicationFactor)
	}
	return nil
}

// createTopic is the decision to create a topic.
func (c *Cluster) createTopic(n newTopic) decision {
	return func(img *image.Image) ([]metarecord.Record, error) {
		return img.CreateTopic(n.command(), c.limits())
	}
}

// command returns the command for package image.
func (n newTopic) command() image.Creation {
	return image.Creation{
		Name: n.name, ID: n.id, Drawn: topic.NewID(), Partitions: n.partitions, Factor: n.factor,
		Assignment: n.assignment, Config: n.settings.Explicit(),
	}
}

func creations(ns []creation) []image.Creation {
	all := make([]image.Creation, len(ns))
	for i, n := range ns {
		all[i] = n.command()
	}
	return all
}

// metadataTopicID is Kafka's id of __cluster_metadata.
var metadataTopicID = topic.ID{15: 1}
