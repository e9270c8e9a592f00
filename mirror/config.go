package mirror

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// DefaultPositionTopic is the default of ForwardConfig.PositionTopic.
const DefaultPositionTopic = "strata-mirror-positions"

// A Source is a cluster to forward from. strata.Client includes it.
type Source interface {
	consumer.Backend
	Topic(ctx context.Context, name string) (topic.Info, error)
	ClusterID() string
}

// A Target is a cluster to forward to. strata.Client includes it.
type Target interface {
	producer.TxnBackend
	consumer.Backend
	EnsureTopic(ctx context.Context, name string, cfg topic.Config) error
	Topic(ctx context.Context, name string) (topic.Info, error)
	ClusterID() string
}

// ForwardConfig describes a Forward. ID and Topics are required.
type ForwardConfig struct {
	// ID names the mirror at the target: its position and, with the prefix "strata-mirror-", its
	// transactional id and its group. It must be stable across restarts, and at most 200 bytes
	// long. Two mirrors to one target need different IDs.
	ID string
	// Topics are the topics of the source.
	Topics []string
	// Rename returns the name of a source topic at the target. It is called once per topic, by
	// NewForward. nil keeps the names.
	Rename func(topic string) string

	// Start maps source partitions to the offsets to begin at: an offset, consumer.StartEarliest or
	// consumer.StartLatest. It applies to topics for which the mirror has no position, and must
	// then have each partition of the topic. nil: see ErrNoPosition.
	Start record.Offsets

	// PositionTopic is the topic of the target with the positions of mirrors. The mirror creates it
	// if it does not exist; it must be compacted. Mirrors may share it. Empty means
	// DefaultPositionTopic.
	PositionTopic string
	// Group is the group of the source that shows the position to tools. It must have no members.
	// Empty means "strata-mirror-" and the ID.
	Group string

	// ReplicationFactor is the number of replicas of topics that the mirror creates at the target.
	// 0 means the target's default.
	ReplicationFactor int

	// RecordsPerSecond and BytesPerSecond limit the average speed, bytes being those of keys,
	// values and headers. 0 means no limit.
	RecordsPerSecond, BytesPerSecond int

	// Compression is the codec of the batches at the target. The zero value is none.
	Compression record.Codec

	Logger *slog.Logger // nil discards everything
}

const (
	idPrefix = "strata-mirror-"
	maxID    = 200
)

func configError(key, value, format string, args ...any) error {
	return &topic.ConfigError{Key: key, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// check fills in defaults. It returns the names of the target topics, in the order of Topics.
func (c *ForwardConfig) check(source Source, target Target) (targets []string, err error) {
	switch {
	case c.ID == "":
		return nil, configError("ID", "", "a mirror needs a name that stays the same across restarts")
	case len(c.ID) > maxID:
		return nil, configError("ID", c.ID, "is longer than %d bytes", maxID)
	case len(c.Topics) == 0:
		return nil, configError("Topics", "", "nothing to forward")
	case c.ReplicationFactor < 0:
		return nil, configError("ReplicationFactor", fmt.Sprint(c.ReplicationFactor), "is negative")
	case c.RecordsPerSecond < 0:
		return nil, configError("RecordsPerSecond", fmt.Sprint(c.RecordsPerSecond), "is negative")
	case c.BytesPerSecond < 0:
		return nil, configError("BytesPerSecond", fmt.Sprint(c.BytesPerSecond), "is negative")
	}
	c.Topics = slices.Clone(c.Topics)
	c.PositionTopic = cmp.Or(c.PositionTopic, DefaultPositionTopic)
	c.Group = cmp.Or(c.Group, idPrefix+c.ID)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := topic.ValidateName(c.PositionTopic); err != nil {
		return nil, configError("PositionTopic", c.PositionTopic, "%v", err)
	}
	same := source.ClusterID() != "" && source.ClusterID() == target.ClusterID()
	for i, name := range c.Topics {
		to := name
		if c.Rename != nil {
			to = c.Rename(name)
		}
		switch err := topic.ValidateName(to); {
		case slices.Contains(c.Topics[:i], name):
			return nil, configError("Topics", name, "is there twice")
		case err != nil:
			return nil, configError("Rename", to, "%v", err)
		case slices.Contains(targets, to):
			return nil, configError("Rename", to, "is the name of two topics")
		case to == c.PositionTopic || same && name == c.PositionTopic:
			return nil, configError("Topics", name, "is the topic of positions")
		case same && slices.Contains(c.Topics, to):
			return nil, configError("Topics", to, "would be forwarded to itself: source and target are the same cluster")
		}
		targets = append(targets, to)
	}
	for tp, offset := range c.Start {
		if !slices.Contains(c.Topics, tp.Topic) || tp.Partition < 0 {
			return nil, configError("Start", fmt.Sprintf("%s-%d", tp.Topic, tp.Partition), "is no partition of Topics")
		}
		if offset < 0 && offset != consumer.StartEarliest && offset != consumer.StartLatest {
			return nil, configError("Start", fmt.Sprint(offset), "is no offset")
		}
	}
	return targets, nil
}
