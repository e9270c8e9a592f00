package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// A TopicSpec is a topic to be created.
type TopicSpec struct {
	Name   string
	Config topic.Config
}

// CreateTopics creates topics, each by itself: errs[i] is what CreateTopic says of topics[i], in
// the order given. Those that can be created share one write of the metadata, and one sync, unless
// they have more than 10,000 partitions together. An error of that write, or of ctx, is told for
// each of them.
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
		if partitions+n.partitions > maxNewPartitions {
			c.create(ctx, together, errs)
			together, partitions = nil, 0
		}
		together, partitions = append(together, creation{n, i}), partitions+n.partitions
	}
	c.create(ctx, together, errs)
	return errs
}

// creation is a checked request and its place among those of the call.
type creation struct {
	newTopic
	index int
}

// create makes one change of several creations and enters what becomes of each.
func (c *Cluster) create(ctx context.Context, ns []creation, errs []error) {
	// Read only when the change has been made: it may be decided on after ctx has ended.
	refused := make([]error, len(ns))
	err := c.change(ctx, func(img *image) (recs []metarecord.Record, _ error) {
		names, ids, partitions := map[string]string{}, map[topic.ID]bool{}, 0
		for i, n := range ns {
			key := topic.CollisionKey(n.name)
			own, err := n.records(img, img.partitions+partitions)
			if other, ok := names[key]; err == nil && ok {
				err = collision(n.name, other)
			}
			if err == nil && ids[n.id] {
				err = fmt.Errorf("%w: %v, by another one of them", ErrTopicIDInUse, n.id)
			}
			if len(own) == 0 && err == nil {
				continue // it is there already
			}
			if err == nil {
				err = c.room(img, partitions+n.partitions)
			}
			if refused[i] = err; err == nil {
				names[key], ids[n.id] = n.name, n.id != (topic.ID{})
				partitions += n.partitions
				recs = append(recs, own...)
			}
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

// collision returns why there can be no topic of that name beside the other one.
func collision(name, other string) error {
	if name == other {
		return ErrTopicExists
	}
	return fmt.Errorf("%w: it collides with %q in metric names, where '.' and '_' are the same", ErrInvalidTopic, other)
}

// CreateTopic creates a topic. When it returns nil the topic is on stable storage and can be
// written to. Its partitions get their directories when they are first written.
//
// With cfg.ID it may be called again if the outcome is not known: nil says that the topic is there,
// as asked for, whichever call created it.
//
// Errors: ErrTopicExists, ErrTopicIDInUse, ErrInvalidTopic (also if only '.' and '_' distinguish
// the name from an existing one), ErrInvalidPartitions, ErrInvalidReplicationFactor,
// ErrInvalidAssignment, ErrPolicyViolation (more than 10,000 partitions), *topic.ConfigError,
// ErrClosed, ctx's. If ctx ends during the call the topic may be created all the same.
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
		return n, fmt.Errorf("%w: %v is that of the controller's log", ErrTopicIDInUse, cfg.ID)
	}
	c.mu.RLock()
	if t := c.image.topics[name]; t == nil || t.id != cfg.ID {
		err = c.image.claimable(name)
	}
	c.mu.RUnlock()
	if err != nil {
		return n, err // whatever else is wrong, as in Kafka
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
	case n.partitions > maxNewPartitions:
		return n, fmt.Errorf("%w: %d partitions, at most %d are created at once", ErrPolicyViolation, n.partitions, maxNewPartitions)
	case n.factor < 1 || n.factor > maxFactor:
		return n, fmt.Errorf("%w: %d, this version keeps one replica of a partition", ErrInvalidReplicationFactor, n.factor)
	}
	return n, nil
}

// maxFactor is how many replicas a partition can have.
const maxFactor = 1

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
	return func(img *image) ([]metarecord.Record, error) {
		recs, err := n.records(img, img.partitions)
		if err == nil && len(recs) > 0 {
			err = c.room(img, n.partitions)
		}
		return recs, err
	}
}

// records returns the records that create the topic, none if it is there. turn is where placing it
// begins.
func (n newTopic) records(img *image, turn int) ([]metarecord.Record, error) {
	if t := img.topics[n.name]; t != nil && t.id == n.id {
		return nil, n.same(t)
	}
	// Again: newTopic looked before this change was the one under way.
	if err := img.claimable(n.name); err != nil {
		return nil, err
	}
	id := n.id
	switch other := img.byID[id]; {
	case id == (topic.ID{}):
		id = topic.NewID()
	case other != nil:
		return nil, fmt.Errorf("%w: %v, by %q", ErrTopicIDInUse, id, other.name)
	case img.removed[id] != "":
		return nil, fmt.Errorf("%w: %v, by %q, which was deleted", ErrTopicIDInUse, id, img.removed[id])
	}
	recs := []metarecord.Record{&metarecord.Topic{Name: n.name, ID: id}}
	explicit := n.settings.Explicit()
	var names []string
	if len(explicit) > 0 {
		names = slices.Sorted(maps.Keys(explicit))
	}
	for _, k := range names {
		v := explicit[k]
		recs = append(recs, &metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: n.name, Name: k, Value: &v})
	}
	replicas, err := img.assign(placing{turn: turn, partitions: n.partitions, factor: n.factor, assignment: n.assignment})
	if err != nil {
		return nil, err
	}
	return img.appendPartitions(recs, id, 0, replicas), nil
}

// same returns nil if t is the topic that was asked for.
func (n newTopic) same(t *topicImage) error {
	if len(t.partitions) != n.partitions || !maps.Equal(t.config, n.settings.Explicit()) {
		return fmt.Errorf("%w: with that id, and other partitions or settings", ErrTopicExists)
	}
	for i, p := range t.partitions {
		if len(p.replicas) != n.factor || n.assignment != nil && !slices.Equal(p.replicas, n.assignment[i]) {
			return fmt.Errorf("%w: with that id, and other replicas", ErrTopicExists)
		}
	}
	return nil
}

// metadataTopicID is Kafka's id of __cluster_metadata.
var metadataTopicID = topic.ID{15: 1}

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

func (m *image) appendPartitions(recs []metarecord.Record, id topic.ID, first int, all [][]int32) []metarecord.Record {
	alike := map[int32]*metarecord.Partition{} // by leader; large topics share their lists, which nobody writes to
	for i, replicas := range all {
		p := &metarecord.Partition{Partition: int32(first + i), TopicID: id, Leader: replicas[0]}
		if like := alike[p.Leader]; like != nil && slices.Equal(like.Replicas, replicas) {
			p.Replicas, p.Directories = like.Replicas, like.Directories
		} else {
			p.Replicas, p.Directories = replicas, m.directoriesOf(replicas)
			alike[p.Leader] = p
		}
		p.ISR = p.Replicas
		recs = append(recs, p)
	}
	return recs
}
